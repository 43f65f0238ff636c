"""Learners that generate text: fine-tuning, prompt tuning and LoRA of any language model, and small
models from scratch.

`model` is `smollm2` or `gemma3-270m` (from their wheels, which work without a network), a local
folder, or a hub id. It may be a decoder or an encoder-decoder (T5, BART). `pretrained: false` is
the random baseline of TaskBench500's appendix E.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from zlib import crc32

from taskloom.core.errors import MissingExtra
from taskloom.core.example import Example
from taskloom.core.files import path_of
from taskloom.core.seeding import Key
from taskloom.learners.config import (
    check_settings,
    digest_settings,
    later_setting,
    register_learner,
)
from taskloom.learners.interface import (
    Fitted,
    LearnerError,
    Pairs,
    Point,
    Report,
    check_seed,
    evaluation_splits,
    examples,
)
from taskloom.learners.saved import (
    disk_faults,
    read_card,
    read_curve,
    read_learner,
    read_tensors,
    saving,
    write_tensors,
)
from taskloom.learners.training.settings import Training

if TYPE_CHECKING:
    from torch import Tensor

    from taskloom.learners.pretrained.encoding import EncodedRows
    from taskloom.learners.pretrained.fitted import FittedLanguageModel
    from taskloom.learners.pretrained.models import Base

TRAINED = "trained.safetensors"


def listed(example: Example) -> Example:
    """Return a training example with all its answers joined into one text, written like a Python
    list.

    >>> listed(Example("Who?", ["Ann", "Bob"])).targets
    ("['Ann', 'Bob']",)
    """
    if len(example.targets) == 1:
        return example
    return Example(
        example.input,
        str(list(example.targets)),
        example.traits,
        task=example.task,
        key=example.key,
    )


def few(items: Sequence[Example], shots: int, seed: int) -> list[Example]:
    """Apply the few-shot protocol: shuffle by the seed and take the first `shots` examples. 0 takes
    all.
    """
    if not shots:
        return list(items)
    if shots > len(items):
        raise LearnerError(
            f"{shots} shots were requested and the training split has {len(items)} examples"
        )
    order = Key("few", seed).permutation(len(items))
    return [items[int(order(i))] for i in range(shots)]


@dataclass(frozen=True, slots=True)
class FitOptions:
    """Arguments of `fit` in addition to the data.

    Attributes:
        seed: Random seed.
        folder: Folder of checkpoints; a run found there is resumed.
        progress: Called regularly.
        seconds: Time limit in seconds.
    """

    seed: int = 0
    folder: Path | None = None
    progress: Report | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Language:
    """Base class of learners that generate text.

    Attributes:
        training: The loop's settings; a step is one batch.
        join: Separator between an input and its answer.
        shots: Number of training examples, chosen by the seed; 0: all.
        longest_answer: Maximum tokens of an answer.
        targets: Which of several acceptable answers to learn from: `redrawn` (one is drawn at every
            step), `fixed` (one is drawn by the seed), `first` (the official one), or `listed` (all
            of them as one answer).
        beams: Number of beams; 1 is greedy.
        longest_input: Maximum tokens of an input; longer ones are cut, with a warning. 0: inputs
            that the model cannot read are refused.
        cut: End of a longer input that is cut off, `end` or `start`.
        cut_answers: Cut training answers to `longest_answer` tokens, with a warning. Otherwise
            longer ones are refused. Scores still compare with the whole answer.
        start_from: Folder of a saved model of this learner, from which training starts.
    """

    training: Training = field(
        default_factory=lambda: Training(
            steps=1000, batch=64, rate=1e-4, warmup=0, evaluate_every=100, threads=0
        )
    )
    join: str = " |"
    shots: int = 0
    longest_answer: int = 32
    targets: Literal["redrawn", "fixed", "first", "listed"] = later_setting("redrawn")
    beams: int = later_setting(1)
    longest_input: int = later_setting(0)
    cut: Literal["end", "start"] = later_setting("end")
    cut_answers: bool = later_setting(False)
    start_from: str = later_setting("")

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_settings(self)

    def base(self, texts: Sequence[str], seed: int) -> Base:
        """Load the model to adapt."""
        raise NotImplementedError

    def prepare(self, base: Base, tasks: int, seed: int) -> tuple[dict[str, Tensor], Tensor | None]:
        """Return the trained tensors by name, and the prompts if there are any."""
        raise NotImplementedError

    def fit(
        self,
        train: Pairs,
        evaluate: Mapping[str, Pairs] | None = None,
        seed: int = 0,
        *,
        folder: Path | None = None,
        progress: Report | None = None,
        seconds: float | None = None,
    ) -> FittedLanguageModel:
        """Train on one task; see `Learner.fit`."""
        tests = {name: {"task": split} for name, split in evaluation_splits(evaluate).items()}
        return self.adapt({"task": train}, tests, FitOptions(seed, folder, progress, seconds))[
            "task"
        ]

    def adapt(
        self,
        train: Mapping[str, Pairs],
        evaluate: Mapping[str, Mapping[str, Pairs]],
        options: FitOptions,
    ) -> dict[str, FittedLanguageModel]:
        """Train on tasks by name, and return a model for each."""
        from taskloom.learners.pretrained.models import need_transformers

        need_transformers()
        from taskloom.learners.pretrained.encoding import choose_targets
        from taskloom.learners.pretrained.fitted import StepAnswers, score_together
        from taskloom.learners.pretrained.trainer import Adapter
        from taskloom.learners.training.out_of_memory import room_for
        from taskloom.learners.training.step import pick_device

        seed, folder = options.seed, options.folder
        check_seed(seed)
        data = self._learned_from(train, seed)
        tests: dict[str, dict[str, list[Example]]] = {}
        for split, by_task in evaluate.items():
            tests[split] = {name: examples(rows, split) for name, rows in by_task.items()}
        everything = _all_examples(data, *tests.values())
        with room_for("the model"):
            base, begun = self._open(self._all_texts(everything), seed)
        self.check(base, _all_examples(data))
        identity = {"learner": self.name, "own": _plain(self), "data": _digest(everything)}
        if folder is not None:  # the folder or hub may hold another model when the run is resumed
            identity |= self._weights_begun_with(base)
        with room_for(f"the model '{base.name}'"):
            base.model.to(pick_device(self.training.device))
        trained, prompts = self.prepare(base, len(data), seed)
        prompt_length = 0 if prompts is None else prompts.shape[1]
        if begun is not None and prompts is not None:
            _begin_with(prompts, begun, self.start_from)
        key = Key("targets", seed)
        learned: dict[str, EncodedRows] = {}
        for name, items in data.items():
            rows = self.rows(base, items, prompt_length)
            learned[name] = choose_targets(rows, self.targets, key)
        encoded: dict[str, list[EncodedRows]] = {}
        for split, by_name in tests.items():
            encoded[split] = [self.rows(base, by_name[name], prompt_length) for name in data]
        adapter = Adapter(
            base, trained, learned, self.training, seed, prompts=prompts, identity=identity
        )
        answers = StepAnswers()

        def fitted(task: int, step: int, curve: Sequence[Point] = ()) -> FittedLanguageModel:
            prompt = None if prompts is None else prompts.detach()[task].clone()
            model = self.fitted(base, prompt, curve, task=task)
            model.step, model.known = step, answers.of(task, step)
            return model

        def score(numbers: Sequence[int], some: Sequence[EncodedRows]) -> list[tuple[float, float]]:
            models = [fitted(number, adapter.done) for number in numbers]
            # Adapters are chosen by row, which does not work with beams because they multiply the
            # rows of a batch.
            if len(models) == 1 or self.beams > 1:
                return [model.score(rows) for model, rows in zip(models, some, strict=True)]
            return score_together(models, some)

        adapter.go(encoded, score, folder, options.progress, options.seconds)
        adapted = {}
        for task, (name, record) in enumerate(adapter.records.items()):
            step = record.best_step if self.training.patience else adapter.done
            adapted[name] = fitted(task, step, record.curve)
        return adapted

    def _all_texts(self, data: Sequence[Example]) -> list[str]:
        """Return the inputs, each with its separator, and all targets."""
        texts: list[str] = []
        for example in data:
            texts.append(example.input + self.join)
            texts.extend(example.targets)
        return texts

    def _learned_from(self, train: Mapping[str, Pairs], seed: int) -> dict[str, list[Example]]:
        """Return the examples that each task is trained on: the few-shot selection, with all
        targets joined into one if they are `listed`.
        """
        data = {
            name: few(self.usable(examples(split)), self.shots, seed)
            for name, split in train.items()
        }
        if self.targets == "listed":
            return {name: [listed(e) for e in split] for name, split in data.items()}
        return data

    def _weights_begun_with(self, base: Base) -> dict[str, str]:
        """Return the fingerprint of the initial model."""
        from taskloom.learners.pretrained.models import fingerprint

        weights = {"the weights of the model": fingerprint(base)}
        trained = path_of(self.start_from) / TRAINED
        if self.start_from and trained.is_file():
            weights["what was trained before"] = f"{crc32(trained.read_bytes()):x}"
        return weights

    def _open(self, texts: Sequence[str], seed: int) -> tuple[Base, Tensor | None]:
        """Load the model to adapt, or the saved model to start from, with its prompt if it has
        one.
        """
        if not self.start_from:
            return self.base(texts, seed), None
        folder = path_of(self.start_from)
        saved = read_card(folder)["learner"]
        if saved != self.name:
            raise LearnerError(
                f"start_from: {folder} holds the learner '{saved}', not '{self.name}'"
            )
        return self.restore(folder)

    def usable(self, items: list[Example]) -> list[Example]:
        """Return the training examples that this learner can learn from; by default all."""
        return items

    def check(self, base: Base, items: Sequence[Example]) -> None:
        """Raise an error for a model that could not generate the answers."""
        from taskloom.learners.pretrained.models import check_answers

        check_answers(base.tokeniser, (t for e in items for t in e.targets), base.name)

    def rows(self, base: Base, items: Sequence[Example], prompt: int) -> EncodedRows:
        """Encode examples, with room for a prompt."""
        from taskloom.learners.pretrained.encoding import read_rows

        return read_rows(
            base,
            items,
            self.join,
            prompt,
            self.longest_answer,
            self.longest_input,
            self.cut,
            self.cut_answers,
        )

    def fitted(
        self,
        base: Base,
        prompt: Tensor | None,
        curve: Sequence[Point] = (),
        batch: int = 64,
        task: int = 0,
    ) -> FittedLanguageModel:
        """Build the adapted model."""
        from taskloom.learners.pretrained.fitted import FittedLanguageModel

        return FittedLanguageModel(self, base, prompt, curve, batch, task)

    def save(self, fitted: FittedLanguageModel, folder: Path) -> None:
        """Save the card and the whole model. Methods that train few weights save only these."""
        with saving(folder, self, fitted.curve) as temporary, disk_faults():
            fitted.base.model.save_pretrained(temporary / "model")
            fitted.base.tokeniser.save_pretrained(temporary / "model")

    def restore(self, folder: Path) -> tuple[Base, Tensor | None]:
        """Load what `save` wrote."""
        from taskloom.learners.pretrained.models import open_base

        return open_base(str(Path(folder).resolve() / "model")), None


def _all_examples(*parts: Mapping[str, Sequence[Example]]) -> list[Example]:
    """Return the examples of all tasks of all splits, in order."""
    every: list[Example] = []
    for part in parts:
        for split in part.values():
            every.extend(split)
    return every


def _begin_with(prompts: Tensor, begun: Tensor, folder: str) -> None:
    """Start every task's prompt from the saved one."""
    import torch

    if prompts.shape[1:] != begun.shape:
        raise LearnerError(
            f"start_from: the prompt in {folder} has {len(begun)} vectors; set n to {len(begun)}"
        )
    with torch.no_grad():
        prompts.copy_(begun)


def _plain(learner: Language) -> dict[str, Any]:
    return {k: v for k, v in digest_settings(learner).items() if k != "training"}


def _digest(items: Sequence[Example]) -> str:
    from hashlib import blake2b

    from taskloom.core.seeding import encode

    hashed = blake2b(digest_size=16)
    for e in items:
        hashed.update(encode((e.input, *e.targets)))
    return hashed.hexdigest()


def load_language(folder: Path) -> Fitted:
    """Load a fitted language model from its folder."""
    from taskloom.learners.pretrained.models import need_transformers

    need_transformers()
    from taskloom.learners.training.step import pick_device

    card, learner = read_learner(folder)
    base, prompt = learner.restore(Path(folder))
    device = pick_device(learner.training.device)
    base.model.to(device)
    fitted: Fitted = learner.fitted(
        base, None if prompt is None else prompt.to(device), read_curve(card)
    )
    return fitted


@dataclass(frozen=True)
class Pretrained(Language):
    """A pretrained language model, and how it is adapted.

    Attributes:
        model: `smollm2` (licence: Apache-2.0), `gemma3-270m` (Gemma Terms of Use), a local folder,
            or a hub id.
        pretrained: False takes the same architecture with random weights.
    """

    model: str = "smollm2"
    pretrained: bool = True

    def base(self, texts: Sequence[str], seed: int) -> Base:
        """Load the model, or the same architecture with random weights."""
        from taskloom.learners.pretrained.models import open_base

        return open_base(self.model, self.pretrained, seed)


@register_learner("fine-tune", describe="a language model, all weights trained", load=load_language)
@dataclass(frozen=True)
class FineTune(Pretrained):
    """Full fine-tuning. TaskBench500 uses a rate of 1e-3 for T5; the default suits models like
    SmolLM2.
    """

    name: ClassVar[str] = "fine-tune"

    def prepare(self, base: Base, tasks: int, seed: int) -> tuple[dict[str, Tensor], Tensor | None]:
        """Return every weight."""
        return {n: p.requires_grad_() for n, p in base.model.named_parameters()}, None


@dataclass(frozen=True)
class Frozen(Pretrained):
    """A frozen model with a small trained part, so that many tasks can share its forward passes."""

    def fit_tasks(
        self,
        train: Mapping[str, Pairs],
        evaluate: Mapping[str, Mapping[str, Pairs]] | None = None,
        seed: int = 0,
        *,
        folder: Path | None = None,
        progress: Report | None = None,
        seconds: float | None = None,
    ) -> dict[str, FittedLanguageModel]:
        """Train on many tasks in one run, each example with its task's adapter. Up to rounding,
        each task gives the same result as if trained alone.

        Args:
            train: Training data by task.
            evaluate: Splits by name, each with every task's data.
            seed: Random seed of all tasks.
            folder: Folder of checkpoints; a run found there is resumed.
            progress: Called after every step.
            seconds: Time limit in seconds.
        """
        if not isinstance(train, Mapping):
            raise LearnerError(
                "fit_tasks takes training data by task, e.g. {'antonyms': …, 'plurals': …}; fit"
                " takes one task's"
            )
        if not train:
            raise LearnerError("there is nothing to learn from: no task was given")
        tests = evaluation_splits(evaluate)
        for split, parts in tests.items():
            missing = set(train) - set(parts if isinstance(parts, Mapping) else ())
            if missing:
                raise LearnerError(
                    f"the split '{split}' lacks the task '{sorted(missing)[0]}'; give it data by"
                    " task, as in training"
                )
        return self.adapt(train, tests, FitOptions(seed, folder, progress, seconds))

    def answer_tasks(
        self, fitted: Mapping[str, FittedLanguageModel], inputs: Mapping[str, Sequence[str]]
    ) -> dict[str, list[str]]:
        """Return the answers of each task's model to its inputs, computed in batches over all tasks
        if possible.

        Args:
            fitted: Result of `fit_tasks`.
            inputs: Inputs of every task.
        """
        from taskloom.learners.pretrained.fitted import answer_together

        if self.beams > 1:  # beams multiply the rows, and adapters are chosen by row
            return {name: fitted[name].answer(some) for name, some in inputs.items()}
        answers = answer_together([fitted[name] for name in inputs], list(inputs.values()))
        return dict(zip(inputs, answers, strict=True))

    def save_beside(
        self, fitted: FittedLanguageModel, folder: Path, trained: Mapping[str, Tensor]
    ) -> None:
        """Write the card and the trained tensors. The card has the model's name and fingerprint."""
        from taskloom.learners.pretrained.models import fingerprint

        model = {"seed": fitted.base.seed, "fingerprint": fingerprint(fitted.base)}
        with saving(folder, self, fitted.curve, model=model) as temporary:
            write_tensors(temporary / TRAINED, trained)

    def restore_beside(self, folder: Path) -> tuple[Base, dict[str, Tensor]]:
        """Load the model, which must be the one used in training, and load the trained tensors."""
        from taskloom.learners.pretrained.models import fingerprint

        noted = read_card(folder).get("model", {})
        base = self.base([], int(noted.get("seed", 0)))
        if noted.get("fingerprint", fingerprint(base)) != fingerprint(base):
            raise LearnerError(
                f"the model '{self.model}' is not the one that {folder} was trained with (its"
                " weights or its vocabulary have changed); put that one back, or fit and save"
                " again"
            )
        return base, read_tensors(folder / TRAINED)


@register_learner(
    "prompt-tune",
    describe="a frozen language model with a trained prompt of n vectors",
    load=load_language,
)
@dataclass(frozen=True)
class PromptTune(Frozen):
    """Prompt tuning. As in TaskBench500, n is 100. Here all vectors are trained, whereas the
    reference trains only 72 of its 100 by mistake.

    Attributes:
        n: Number of vectors before the input.
        first_rows: The n initial vectors are drawn from this many first rows of the vocabulary,
            without repetition.
    """

    training: Training = field(
        default_factory=lambda: Training(
            steps=1000, batch=64, rate=0.01, warmup=0, clip=0.0, evaluate_every=100, threads=0
        )
    )
    n: int = 100
    first_rows: int = 5000

    name: ClassVar[str] = "prompt-tune"

    def prepare(self, base: Base, tasks: int, seed: int) -> tuple[dict[str, Tensor], Tensor | None]:
        """Return the prompts [tasks, n, d]. Each task starts as it would if trained alone."""
        import torch

        base.model.requires_grad_(False)
        table = base.model.get_input_embeddings().weight.detach()
        limit = min(self.first_rows, len(base.tokeniser), len(table))
        if self.n > limit:
            raise LearnerError(
                f"a prompt of {self.n} different rows cannot be drawn from {limit}; lower n or"
                " raise first_rows"
            )
        order = Key("prompt", seed).permutation(limit)
        rows = torch.tensor([int(order(i)) for i in range(self.n)], device=table.device)
        prompts = table[rows].float().repeat(tasks, 1, 1).clone().requires_grad_()
        return {"prompts": prompts}, prompts

    def save(self, fitted: FittedLanguageModel, folder: Path) -> None:
        """Write the card and the n vectors."""
        assert fitted.prompt is not None
        self.save_beside(fitted, folder, {"prompt": fitted.prompt})

    def restore(self, folder: Path) -> tuple[Base, Tensor | None]:
        """Load the base and the vectors."""
        base, trained = self.restore_beside(folder)
        return base, trained["prompt"]


@register_learner(
    "decoder",
    describe="decoder-only Transformer over text, from scratch",
    load=load_language,
    kind="decoder",
)
@register_learner(
    "encoder-decoder",
    describe="encoder-decoder Transformer over text, from scratch",
    load=load_language,
)
@dataclass(frozen=True)
class FromScratch(Language):
    """A small Llama or T5 with random weights. Its tokens are the words of the data (`words`) or
    bytes.

    Attributes:
        kind: The architecture.
        tokens: `words` has one token per word of the data; `bytes` can write anything.
        state: Size of the states.
        layers: Number of decoder layers. An encoder has the same number.
        heads: Attention heads.
        feed_forward: Inner size of the feed-forward maps.
        dropout: Dropout rate in training.
        longest: Maximum tokens of an input.
    """

    training: Training = field(
        default_factory=lambda: Training(
            steps=5000, batch=64, rate=5e-4, warmup=200, clip=1.0, evaluate_every=500
        )
    )
    kind: Literal["decoder", "encoder-decoder"] = "encoder-decoder"
    tokens: Literal["words", "bytes"] = "words"
    state: int = 256
    layers: int = 4
    heads: int = 4
    feed_forward: int = 1024
    dropout: float = 0.1
    longest: int = 1024

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the learner's architecture."""
        return self.kind

    def base(self, texts: Sequence[str], seed: int) -> Base:
        """Build the untrained model."""
        from taskloom.learners.pretrained.models import Sizes, from_scratch

        sizes = Sizes(
            self.state, self.layers, self.heads, self.feed_forward, self.dropout, self.longest
        )
        return from_scratch(self.kind, texts, sizes, self.tokens, seed)

    def prepare(self, base: Base, tasks: int, seed: int) -> tuple[dict[str, Tensor], Tensor | None]:
        """Return every weight."""
        return {n: p.requires_grad_() for n, p in base.model.named_parameters()}, None


@register_learner(
    "lora", describe="a frozen language model with trained low-rank updates", load=load_language
)
@dataclass(frozen=True)
class Lora(Frozen):
    """LoRA by peft: updates of rank `rank` on all linear maps except the output map.

    Attributes:
        rank: Rank of the updates.
        alpha: Scale of the updates, which are multiplied by alpha / rank.
        lora_dropout: Dropout rate before the updates, in training.
    """

    training: Training = field(
        default_factory=lambda: Training(
            steps=1000, batch=64, rate=1e-3, warmup=0, evaluate_every=100, threads=0
        )
    )
    rank: int = 8
    alpha: float = 16.0
    lora_dropout: float = 0.0

    name: ClassVar[str] = "lora"

    def prepare(self, base: Base, tasks: int, seed: int) -> tuple[dict[str, Tensor], Tensor | None]:
        """Return the low-rank matrices; everything else is frozen. With many tasks they have an
        axis of tasks.
        """
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if not any(p.requires_grad and "lora_" in n for n, p in base.model.named_parameters()):
                self._inject(base)  # a model to start from already has its matrices
        if tasks == 1:
            return {n: p for n, p in base.model.named_parameters() if p.requires_grad}, None
        from taskloom.learners.accelerated.multi_lora import stack_adapters

        return stack_adapters(base.model, tasks, base.choice), None

    def _inject(self, base: Base) -> None:
        try:
            from peft import LoraConfig, inject_adapter_in_model
        except ImportError:
            raise MissingExtra("LoRA", "peft", "train") from None
        import torch
        from transformers.pytorch_utils import Conv1D  # GPT-2's class for linear maps

        base.model.requires_grad_(False)
        output = base.model.get_output_embeddings()
        maps = {
            n: m
            for n, m in base.model.named_modules()
            if isinstance(m, (torch.nn.Linear, Conv1D)) and m is not output
        }
        config = LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            lora_dropout=self.lora_dropout,
            target_modules=list(maps),
            fan_in_fan_out=any(isinstance(m, Conv1D) for m in maps.values()),
        )
        inject_adapter_in_model(config, base.model)

    def save(self, fitted: FittedLanguageModel, folder: Path) -> None:
        """Write the card and the low-rank matrices of this task."""
        from taskloom.learners.accelerated.multi_lora import unstacked

        model = fitted.base.model
        trained = unstacked(model, fitted.task) or {
            n: p for n, p in model.named_parameters() if p.requires_grad
        }
        self.save_beside(fitted, folder, trained)

    def restore(self, folder: Path) -> tuple[Base, Tensor | None]:
        """Load the base model and insert the matrices."""
        import torch

        base, saved = self.restore_beside(folder)
        self._inject(base)
        parameters = dict(base.model.named_parameters())
        if not set(saved) <= set(parameters):
            raise LearnerError(
                f"{folder} was not made with the model '{self.model}' that is installed here; fit "
                "and save again"
            )
        if any(parameters[name].shape != value.shape for name, value in saved.items()):
            raise LearnerError(
                f"{folder} was not made with rank {self.rank}; set rank to the value used there"
            )
        with torch.no_grad():
            for name, value in saved.items():
                parameters[name].copy_(value)
        return base, None
