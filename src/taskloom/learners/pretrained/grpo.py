"""GRPO: adapts a language model by reinforcement learning, with the score of its own answers as the
reward.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from taskloom.core.errors import MissingExtra, TaskloomError
from taskloom.core.example import Example
from taskloom.core.extraction import Extraction
from taskloom.core.registry import find_scorer
from taskloom.core.scoring import Scorer, answer_or_none
from taskloom.learners.config import later_setting, register_learner
from taskloom.learners.interface import (
    LearnerError,
    Pairs,
    Point,
    Progress,
    Report,
    check_seed,
    examples,
    measured,
    report_points,
    report_step,
)
from taskloom.learners.pretrained.in_context import check_extract
from taskloom.learners.pretrained.language_models import (
    FineTune,
    FitOptions,
    Pretrained,
    few,
    load_language,
)
from taskloom.learners.training.settings import Training

if TYPE_CHECKING:
    from torch import Tensor

    from taskloom.learners.pretrained.fitted import FittedLanguageModel
    from taskloom.learners.pretrained.models import Base

TESTED = "1.16.0"
"""Version of TRL with which the tests were last run."""

ROW = "example"
"""Column that identifies the example of a prompt."""


@dataclass(frozen=True, slots=True)
class SupervisedStart:
    """Supervised steps before reinforcement learning, as in `fine-tune` with the same settings.

    Attributes:
        steps: Number of steps; 0: none.
        batch: Examples per step.
        rate: Learning rate.
    """

    steps: int = 0
    batch: int = 64
    rate: float = 1e-4

    def __post_init__(self) -> None:
        if self.steps < 0 or self.batch < 1 or not self.rate > 0:
            raise LearnerError(
                "grpo: supervised: steps must be at least 0, batch at least 1 and rate above 0"
            )


NO_START = SupervisedStart()


@register_learner(
    "grpo",
    describe="a language model, all weights trained by reinforcement (GRPO)",
    load=load_language,
)
@dataclass(frozen=True)
class Grpo(Pretrained):
    """GRPO by TRL. Several answers are sampled for each input, and training makes those that score
    above their mean likelier.

    It learns from the inputs of the training split and the scores of its own answers, never from
    the given answers, so it can be compared with `fine-tune` on the same splits. With
    `supervised: {steps: 300}` it is first fine-tuned on the answers. `model` may also be the folder
    `…/model` of a fine-tuned model.

    Attributes:
        generations: Answers sampled for each input. `batch` counts answers and must be a multiple
            of it.
        temperature: Sampling temperature.
        beta: Weight of the penalty for the distance from the initial model; 0: none.
        reward: Name of the scorer whose score is the reward.
        extract: How an answer is extracted from generated text, in training and in evaluation.
        supervised: Supervised steps before reinforcement learning: `{steps: 300, batch: 64, rate:
            1e-4}`.
    """

    training: Training = field(
        default_factory=lambda: Training(
            steps=500, batch=64, rate=1e-5, warmup=0, clip=1.0, evaluate_every=0, threads=0
        )
    )
    generations: int = 8
    temperature: float = 1.0
    beta: float = 0.0
    reward: str = "any-of"
    extract: str = "line"
    supervised: SupervisedStart = later_setting(NO_START)  # noqa: RUF009 - a frozen value

    name: ClassVar[str] = "grpo"

    def __post_init__(self) -> None:
        Pretrained.__post_init__(self)
        if isinstance(self.supervised, Mapping):  # read from the card of a saved learner
            object.__setattr__(self, "supervised", SupervisedStart(**self.supervised))
        check_extract(self.extract)
        if self.extract == "known":
            raise LearnerError(
                "grpo: extract: known is for models that are only prompted; choose another"
                " extraction"
            )
        if self.generations < 2:
            raise LearnerError(
                f"grpo: generations is {self.generations}; answers are compared, so at least 2 are"
                " needed"
            )
        if self.training.batch % self.generations:
            raise LearnerError(
                f"grpo: batch is {self.training.batch}; it must be a multiple of generations"
                f" ({self.generations})"
            )
        if not self.temperature > 0 or self.beta < 0:
            raise LearnerError("grpo: temperature must be above 0 and beta at least 0")
        if self.start_from:
            raise LearnerError(
                "grpo: start_from is for other learners; name the folder of the model: model:"
                " FOLDER/model"
            )

    def prepare(self, base: Base, tasks: int, seed: int) -> tuple[dict[str, Tensor], Tensor | None]:
        """Return every weight."""
        return {n: p.requires_grad_() for n, p in base.model.named_parameters()}, None

    def adapt(
        self,
        train: Mapping[str, Pairs],
        evaluate: Mapping[str, Mapping[str, Pairs]],
        options: FitOptions,
    ) -> dict[str, FittedLanguageModel]:
        """Train on the inputs of one task. A run found in the folder is resumed."""
        [name], [split] = train, train.values()
        check_seed(options.seed)
        trl = _trl()
        scorer = self._scorer()
        data = few(self.usable(examples(split)), self.shots, options.seed)
        tests = {test: examples(parts[name], test) for test, parts in evaluate.items()}
        from taskloom.learners.pretrained.models import need_transformers

        need_transformers()
        from taskloom.learners.training.step import pick_device

        base = self._start(split, options)
        if base.kind != "decoder":
            raise LearnerError(f"grpo needs a decoder, and '{base.name}' is an {base.kind}")
        self.check(base, data)
        device = pick_device(self.training.device)
        base.model.to(device)
        with tempfile.TemporaryDirectory() as scratch:
            output = Path(scratch) if options.folder is None else Path(options.folder) / "grpo"
            trainer = trl.GRPOTrainer(
                model=base.model,
                reward_funcs=Rewards(data, scorer, Extraction.read(self.extract)),
                train_dataset=_prompts(data, self.join),
                args=self._arguments(
                    trl, output, options.seed, device.type, options.folder is not None
                ),
                processing_class=base.tokeniser,
                callbacks=[_reporter(options.progress, self.training.steps)],
            )
            trainer.remove_callback(_printer())
            trainer.train(resume_from_checkpoint=_last_checkpoint(output))
        base.model.eval()
        curve = self._curve(base, trainer.state.log_history, tests, device)
        return {name: self.fitted(base, None, curve, self.training.batch)}

    def _start(self, split: Pairs, options: FitOptions) -> Base:
        """Return the initial model for reinforcement learning, either unchanged or first fine-tuned
        on the answers.
        """
        if not self.supervised.steps:
            return self.base([], options.seed)
        mine = self.training
        loop = replace(
            FineTune().training,
            steps=self.supervised.steps,
            batch=self.supervised.batch,
            rate=self.supervised.rate,
            evaluate_every=0,
            device=mine.device,
            precision=mine.precision,
            compile=mine.compile,
            graphs=mine.graphs,
        )
        shared = (
            "join",
            "shots",
            "longest_answer",
            "targets",
            "longest_input",
            "cut",
            "model",
            "pretrained",
        )
        first = FineTune(training=loop, **{setting: getattr(self, setting) for setting in shared})
        folder = None if options.folder is None else Path(options.folder) / "supervised"
        with measured(lambda member, points: None):  # its steps are not those of the curve
            return first.fit(split, seed=options.seed, folder=folder, seconds=options.seconds).base

    def _scorer(self) -> Scorer:
        try:
            return find_scorer(self.reward)
        except TaskloomError as error:
            raise LearnerError(f"grpo: reward: {error}") from error

    def _arguments(self, trl: Any, output: Path, seed: int, device: str, keep: bool) -> Any:
        how = self.training
        return trl.GRPOConfig(
            output_dir=str(output),
            max_steps=how.steps,
            per_device_train_batch_size=how.batch,
            learning_rate=how.rate,
            warmup_steps=how.warmup,
            max_grad_norm=how.clip or 1e9,
            weight_decay=how.weight_decay,
            adam_beta2=how.beta2,
            adam_epsilon=how.epsilon,
            lr_scheduler_type={"constant": "constant_with_warmup"}.get(how.decay, how.decay),
            num_generations=self.generations,
            max_completion_length=self.longest_answer,
            temperature=self.temperature,
            beta=self.beta,
            seed=seed % 2**32,
            # If no checkpoint falls within the run, saving is off, because the trainer would write
            # its state at the end, from which no run resumes.
            save_strategy="steps" if keep and how.checkpoint_every <= how.steps else "no",
            save_steps=how.checkpoint_every,
            save_total_limit=1,
            logging_steps=max(1, how.steps // 100),
            use_cpu=device == "cpu",
            bf16=how.precision == "bf16",
            gradient_checkpointing=False,
            disable_tqdm=True,
            report_to=[],
        )

    def _curve(
        self,
        base: Base,
        history: Sequence[Mapping[str, Any]],
        tests: Mapping[str, list[Example]],
        device: Any,
    ) -> tuple[Point, ...]:
        """Return the mean reward in training, and the scores of the splits at the end."""
        logs = [h for h in history if "reward" in h]
        curve = [_point(int(h["step"]), h) for h in logs]
        for name, items in tests.items():
            score, loss = self.fitted(base, None).score(self.rows(base, items, 0))
            curve.append(Point(self.training.steps, name, score, loss))
        return tuple(curve)


class Rewards:
    """Reward of sampled answers, in the form that TRL expects."""

    __name__ = "score"

    def __init__(self, data: Sequence[Example], scorer: Scorer, extraction: Extraction) -> None:
        self.data, self.scorer, self.extraction = data, scorer, extraction

    def __call__(self, *, completions: Sequence[str], **columns: Any) -> list[float]:
        """Return one score per completion."""
        scores = []
        for text, row in zip(completions, columns[ROW], strict=True):
            answer = answer_or_none(self.extraction(text))
            scores.append(self.scorer.score(answer, self.data[row]))
        return scores


def _trl() -> Any:
    """Import TRL, and check that it has every name that is used here."""
    try:
        import trl
    except ImportError:
        raise MissingExtra("grpo", "trl", "trl") from None
    for name in ("GRPOConfig", "GRPOTrainer"):
        if not hasattr(trl, name):
            raise LearnerError(
                f"grpo: trl {trl.__version__} has no {name}; it is tested with trl {TESTED}: pip"
                f" install 'trl=={TESTED}'"
            )
    return trl


def _printer() -> Any:
    """Return the callback class that prints every logged step on standard output, which is reserved
    for the command.
    """
    from transformers import PrinterCallback

    return PrinterCallback


def _prompts(data: Sequence[Example], join: str) -> Any:
    from datasets import Dataset

    return Dataset.from_list(
        [{"prompt": example.input + join, ROW: row} for row, example in enumerate(data)]
    )


def _last_checkpoint(folder: Path) -> str | None:
    checkpoints = []
    for path in folder.glob("checkpoint-*"):
        step = path.name.removeprefix("checkpoint-")
        if step.isdigit():
            checkpoints.append((int(step), path))
    return str(max(checkpoints)[1]) if checkpoints else None


def _point(step: int, logs: Mapping[str, Any]) -> Point:
    """Convert the trainer's log entry to a point of the curve: the mean reward, and the loss."""
    return Point(step, "train", float(logs["reward"]), float(logs.get("loss", 0.0)))


def _reporter(progress: Report | None, steps: int) -> Any:
    """Return a callback that reports the progress of the run."""
    import time

    from transformers import TrainerCallback

    class Reporter(TrainerCallback):  # type: ignore[misc]
        """Reports progress after every logged step."""

        began = time.monotonic()

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any
        ) -> None:
            """Report the step, the loss and the reward."""
            now = logs or {}
            if "reward" in now:
                report_points(0, [_point(state.global_step, now)])
            seconds = time.monotonic() - self.began
            now_at = Progress(state.global_step, steps, float(now.get("loss", 0.0)), seconds)
            report_step(now_at)
            if progress is not None:
                progress(now_at)

    return Reporter()
