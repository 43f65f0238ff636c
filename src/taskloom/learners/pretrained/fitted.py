"""A fitted language model, with its answers, log-probabilities, states and saving."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from taskloom.core.errors import nearest
from taskloom.core.extraction import Extraction
from taskloom.core.scoring import AnyOf
from taskloom.learners.accelerated.greedy import GreedyDecoder, can_write
from taskloom.learners.accelerated.shared_prefix import (
    FirstLine,
    SharedPrefix,
    WholeLine,
    find_shared_prefix,
)
from taskloom.learners.interface import LearnerError, Point, check_candidates, report_answers, texts
from taskloom.learners.pretrained.encoding import Cut, EncodedRows, read_sources, read_targets
from taskloom.learners.pretrained.forward import collate, losses, with_prompts
from taskloom.learners.pretrained.models import Base
from taskloom.learners.training.out_of_memory import in_halves
from taskloom.learners.training.step import computing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


ON_A_GPU = 512
"""Maximum rows answered at once on a GPU. With 400 tokens each and a model of SmolLM2's size they
take about 10 GB.
"""

FIRST_TOKENS = 8
"""Number of tokens after which unfinished rows are regrouped into new batches on a GPU. They are
regrouped again after four times as many.

A batch is generated until its last row is finished, and usually a few of hundreds of answers are
long. After regrouping, the generated tokens are read again with the input, which costs less than
the steps that are saved.
"""

RowAdapters = Callable[[list[int]], tuple[Tensor | None, Tensor | None]]
"""Maps the rows of a batch to the prompts [tasks, n, d] and the task index of each row. Both are
None if all rows have one task.
"""


KnownAnswers = dict[tuple[tuple[int, ...], ...], list[str]]
"""Cache of answers, so that a run that stores the answers to an evaluated split need not compute
them again.

The key is all inputs that were answered together, because answers in other batches may differ by
rounding.
"""


class StepAnswers:
    """The answers of each task at the step of its last evaluation."""

    def __init__(self) -> None:
        self._latest: dict[int, tuple[int, KnownAnswers]] = {}

    def of(self, task: int, step: int) -> KnownAnswers:
        """Cached answers of a task's weights after a step. Answers of other steps are dropped."""
        if self._latest.get(task, (None,))[0] != step:
            self._latest[task] = (step, {})
        return self._latest[task][1]


class FittedLanguageModel:
    """A model, its tokeniser and, for prompt tuning, the vectors before every input.

    Args:
        learner: The learner, for its settings.
        base: The model.
        prompt: Prompt vectors before every input.
        curve: Learning curve.
        batch: Batch size for answering.
        task: Index of the adapter to use if the model has several.
        keeps_prefix: True to keep the shared prefix of inputs between calls and, on a GPU, the
            recorded decoding steps. Only for models that are not trained further.
    """

    def __init__(
        self,
        learner: Any,
        base: Base,
        prompt: Tensor | None = None,
        curve: Sequence[Point] = (),
        batch: int = 64,
        task: int = 0,
        keeps_prefix: bool = False,
    ) -> None:
        self.learner, self.base, self.prompt = learner, base, prompt
        self.keeps_prefix = keeps_prefix
        self.records_steps = keeps_prefix  # on a GPU
        self._kept_prefix: SharedPrefix | None = None
        self.curve = tuple(curve)
        self.batch = batch
        self.task = task
        self.step: int | None = None  # identifies the weights during training
        self.known: KnownAnswers = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave the cached prefix out of copies, because it can be computed again and recorded
        steps cannot be copied.
        """
        return {**self.__dict__, "_kept_prefix": None}

    @property
    def device(self) -> torch.device:
        """The model's device."""
        device: torch.device = next(self.base.model.parameters()).device
        return device

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return one answer per input, by greedy or beam search."""
        return self.write(self.read(texts(inputs)))

    def read(self, inputs: Sequence[str]) -> list[list[int]]:
        """Encode inputs with the learner's settings, cutting those that are too long."""
        longest: int = getattr(self.learner, "longest_input", 0)
        cut: Cut = getattr(self.learner, "cut", "end")
        return read_sources(self.base, inputs, self.learner.join, longest, cut)

    @property
    def parameters(self) -> dict[str, int]:
        """Numbers of parameters in total and of those that were trained."""
        from taskloom.learners.accelerated.multi_lora import unstacked

        weights = list(self.base.model.parameters())
        frozen = sum(p.numel() for p in weights if not p.requires_grad)
        if self.prompt is not None:
            return {
                "total": sum(p.numel() for p in weights) + self.prompt.numel(),
                "trained": self.prompt.numel(),
            }
        trained = sum(t.numel() for t in unstacked(self.base.model, self.task).values())
        trained = trained or sum(p.numel() for p in weights if p.requires_grad)
        return {"total": frozen + trained, "trained": trained}

    def write(self, sources: Sequence[Sequence[int]]) -> list[str]:
        """Return the answers to encoded inputs, extracted as the learner specifies, with whitespace
        normalised.
        """
        recalled = self.recall(sources)
        if recalled is not None:
            return recalled
        return self.extracted(self.say(sources))

    def recall(self, sources: Sequence[Sequence[int]]) -> list[str] | None:
        """Cached answers to inputs that were answered together before, or None."""
        return self.known.get(tuple(map(tuple, sources)))

    def remember(self, sources: Sequence[Sequence[int]], answers: Sequence[str]) -> None:
        """Cache the answers to inputs."""
        self.known[tuple(map(tuple, sources))] = list(answers)

    def extracted(self, written: Sequence[str]) -> list[str]:
        """Extract the answers from generated texts, with whitespace normalised."""
        how: str = getattr(self.learner, "extract", "whole")
        cut = Extraction.read(how)
        return [" ".join(cut(text).split()) for text in written]

    @property
    def _answered_at_once(self) -> int:
        """Number of answers generated together. On a GPU, a step costs about the same for one row
        as for hundreds.
        """
        beams: int = getattr(self.learner, "beams", 1)
        if self.device.type != "cuda":
            return self.batch
        return max(self.batch, ON_A_GPU // beams)

    def say(
        self,
        sources: Sequence[Sequence[int]],
        adapters: RowAdapters | None = None,
        first_line: bool = False,
    ) -> list[str]:
        """Return the generated text, including line breaks.

        Args:
            sources: Inputs as ids.
            adapters: Adapters of the rows, if they belong to several tasks.
            first_line: True if only the first non-empty line is needed, so that the rest may be
                cut.
        """
        one_task = adapters is None and self.prompt is None
        adapters = adapters or self._own_adapters
        written: list[list[int]] = [[] for _ in sources]
        self._begin_writing(sources)
        shared = self._shared_prefix(sources) if one_task else None

        def write_more(rows: list[int], most: int) -> None:
            begun = [[*sources[row], *written[row]] for row in rows]
            if shared is None:
                more = self._generate(
                    *self._aligned(begun), *adapters(rows), most, first_line=first_line
                )
            else:
                more = self._generate_after(shared, begun, most, first_line)
            for row, new in zip(rows, more, strict=True):
                written[row] += new

        todo, done = list(range(len(sources))), 0
        to_the_end = first_line or (shared is not None and shared.decoder is not None)
        stages = [self.learner.longest_answer] if to_the_end else self._stages
        for first, last in pairwise([0, *stages]):
            lengths = [len(sources[row]) + len(written[row]) for row in todo]
            for indices in self._batches(lengths, self._answered_at_once):
                rows = [todo[i] for i in indices]
                in_halves(rows, partial(write_more, most=last - first))
                # A row that generated fewer tokens than the stage allows has finished its answer.
                done += sum(last == stages[-1] or len(written[row]) < last for row in rows)
                report_answers(done, len(sources))
            todo = [row for row in todo if len(written[row]) == last]
        return self._decoded(written)

    def _begin_writing(self, sources: Sequence[Sequence[int]]) -> None:
        """Check that the inputs fit, with room for the answers in the case of a decoder."""
        room = self.learner.longest_answer if self.base.kind == "decoder" else 0
        self._begin([len(source) + room for source in sources], "longest_answer")

    def _decoded(self, written: Sequence[list[int]]) -> list[str]:
        decode = self.base.tokeniser.decode
        return [
            decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            for ids in written
        ]

    def _generate_after(
        self, shared: SharedPrefix, begun: Sequence[list[int]], most: int, first_line: bool
    ) -> list[list[int]]:
        """Continue rows that begin with a shared prefix by at most `most` tokens."""
        if shared.decoder is not None:
            return self._write_after(shared, shared.decoder, begun, first_line)
        given = shared.aligned(begun, int(self.base.tokeniser.pad_token_id), self.device)
        return self._generate(
            *given, None, None, most, first_line=first_line, past=shared.cache(len(begun))
        )

    @property
    def _stages(self) -> list[int]:
        """Maximum answer lengths of the stages in which answers are generated together."""
        longest: int = self.learner.longest_answer
        if (
            self.device.type != "cuda"
            or self.base.kind != "decoder"
            or getattr(self.learner, "beams", 1) > 1
        ):
            return [longest]
        return [*(n for n in (FIRST_TOKENS, 4 * FIRST_TOKENS) if n < longest), longest]

    def _shared_prefix(self, sources: Sequence[Sequence[int]]) -> SharedPrefix | None:
        """The common prefix of all inputs, computed once. None with beam search, or if sharing it
        does not pay off.
        """
        if getattr(self.learner, "beams", 1) != 1:
            return None
        device = self.device
        graphs = self.records_steps and device.type == "cuda"
        with torch.no_grad(), computing("fp32", device):
            shared = find_shared_prefix(self.base, sources, device, self._kept_prefix, graphs)
        if self.keeps_prefix and shared is not None:
            self._kept_prefix = shared
        return shared

    @property
    def recording(self) -> str:
        """Description of the recorded steps."""
        decoder = self._kept_prefix and self._kept_prefix.decoder
        if not decoder:
            return "no steps are recorded"
        return (
            f"steps are recorded for {decoder.recorded_rows}"
            f" rows{decoder.failure and f'; {decoder.failure}'}"
        )

    def forget_prefix(self) -> None:
        """Drop the cached prefix of earlier inputs."""
        self._kept_prefix = None

    def _write_after(
        self,
        shared: SharedPrefix,
        decoder: GreedyDecoder,
        sources: Sequence[Sequence[int]],
        first_line: bool,
    ) -> list[list[int]]:
        """Generate tokens after inputs that begin with a shared prefix."""
        rests = [source[len(shared.ids) :] for source in sources]
        end = self.base.tokeniser.eos_token_id
        whole_line = WholeLine(self.base.tokeniser) if first_line else None

        def finished(rows: Sequence[list[int]]) -> list[bool]:
            lines = [False] * len(rows) if whole_line is None else whole_line(rows)
            return [line or row[-1] == end for line, row in zip(lines, rows, strict=True)]

        # inference_mode is cheaper than no_grad, because views are not tracked and a pass has
        # hundreds.
        with torch.inference_mode(), computing("fp32", self.device):
            written = decoder.write(rests, self.learner.longest_answer, finished)
        return [_until(row, end) for row in written]

    def _own_adapters(self, rows: list[int]) -> tuple[Tensor | None, Tensor | None]:
        return None if self.prompt is None else self.prompt.unsqueeze(0), None

    def _aligned(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Return ids and mask, padded to equal width.

        A decoder is padded on the left, so that every row's answer begins at the same position. An
        encoder is padded on the right, where padding does not shift positions.
        """
        pad, width = int(self.base.tokeniser.pad_token_id), max(map(len, sources))
        rows, masks = [], []
        for source in sources:
            empty = width - len(source)
            left, right = (empty, 0) if self.base.kind == "decoder" else (0, empty)
            rows.append([pad] * left + list(source) + [pad] * right)
            masks.append([0] * left + [1] * len(source) + [0] * right)
        return torch.tensor(rows, device=self.device), torch.tensor(masks, device=self.device)

    def _generate(
        self,
        ids: Tensor,
        mask: Tensor,
        prompts: Tensor | None,
        tasks: Tensor | None,
        most: int,
        first_line: bool = False,
        past: Any = None,
    ) -> list[list[int]]:
        """Generate at most `most` tokens after each row, using the library. The end token is
        removed.
        """
        given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if past is not None:
            given["past_key_values"] = past
        if first_line and prompts is None and self.base.kind == "decoder":
            given["stopping_criteria"] = [FirstLine(self.base.tokeniser, ids.shape[1])]
        if prompts is not None:
            vectors, whole = with_prompts(self.base, ids, mask, prompts, tasks)
            if self.base.kind == "decoder" and not bool(mask.all()):
                vectors, whole = _padding_first(vectors, whole, mask, prompts.shape[1])
            given = {"inputs_embeds": vectors, "attention_mask": whole}
        end = self.base.tokeniser.eos_token_id
        with torch.no_grad(), computing("fp32", self.device), self._rows_of(tasks):
            out = self.base.model.generate(
                **given,
                max_new_tokens=most,
                do_sample=False,
                num_beams=getattr(self.learner, "beams", 1),
                eos_token_id=end,
                pad_token_id=self.base.tokeniser.pad_token_id,
            )
        if self.base.kind == "decoder" and prompts is None:
            out = out[:, ids.shape[1] :]
        return [_until(row, end) for row in out.tolist()]

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return the summed log-probability of each candidate's tokens and end token, or minus
        infinity for texts that cannot be generated.
        """
        inputs = texts(inputs)
        check_candidates(inputs, candidates)
        sources: list[list[int]] = []
        targets: list[list[int]] = []
        coded = read_targets(self.base, (c for row in candidates for c in row))
        for source, row in zip(self.read(inputs), candidates, strict=True):
            sources += [source] * len(row)
            targets += [coded[c] for c in row]
        unknown = self.base.tokeniser.unk_token_id
        sums, _ = self.losses(sources, targets)
        logprobs = []
        for target, loss in zip(targets, sums, strict=True):
            can_be_written = unknown not in target[:-1]  # the last token is the end token
            logprobs.append(-loss if can_be_written else -math.inf)
        each = iter(logprobs)
        return [list(islice(each, len(row))) for row in candidates]

    def losses(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],
        adapters: RowAdapters | None = None,
    ) -> tuple[list[float], list[int]]:
        """Return the summed cross entropy of each target and its number of tokens."""
        one_task = adapters is None and self.prompt is None
        adapters = adapters or self._own_adapters
        sums, counts = [0.0] * len(sources), [0] * len(sources)
        decoder = self.base.kind == "decoder"
        self._begin([len(s) + len(t) * decoder for s, t in zip(sources, targets, strict=True)])
        shared = None
        if self.keeps_prefix and one_task and can_write(self.base.model):
            shared = self._shared_prefix(sources)

        def some(rows: list[int]) -> None:
            their_targets = [targets[row] for row in rows]
            if shared is not None and shared.decoder is not None:
                rests = [sources[row][len(shared.ids) :] for row in rows]
                sums_after_prefix = shared.decoder.losses(rests, their_targets)
                for row, loss in zip(rows, sums_after_prefix, strict=True):
                    sums[row], counts[row] = loss, len(targets[row])
                return
            padded = collate(self.base, [sources[row] for row in rows], their_targets)
            padded = padded.to(self.device)
            prompts, tasks = adapters(rows)
            with self._rows_of(tasks):
                each, tokens, _ = losses(
                    self.base, padded, prompts, tasks if prompts is not None else None
                )
            for row, loss, count in zip(rows, each.tolist(), tokens.tolist(), strict=True):
                sums[row], counts[row] = loss, count

        with torch.no_grad(), computing("fp32", self.device):
            lengths = [len(s) + len(t) for s, t in zip(sources, targets, strict=True)]
            for rows in self._batches(lengths):
                in_halves(rows, some)
        return sums, counts

    def _rows_of(self, tasks: Tensor | None) -> contextlib.AbstractContextManager[None]:
        """Let each row of a batch use its own task's adapter, inside the block only."""
        return contextlib.nullcontext() if tasks is None else self.base.choice.of(tasks, even=False)

    def score(self, rows: EncodedRows) -> tuple[float, float]:
        """Return the share of acceptable answers, and the mean loss per token of the official
        answers.
        """
        sums, counts = self.losses(rows.sources, [t[0] for t in rows.targets])
        answers = self.write(rows.sources)
        self.remember(rows.sources, answers)
        return graded(answers, sums, counts, rows)

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """Return the state of the last input token: `readout` after the last layer, or `layer.K` (0
        is the embedding).
        """
        import numpy as np

        inputs = texts(inputs)
        vectors: list[NDArray[np.float32] | None] = [None] * len(inputs)
        sources = self.read(inputs)
        self._begin([len(s) for s in sources])

        def some(rows: list[int]) -> None:
            layers, ends = self._states([sources[r] for r in rows])
            names = {f"layer.{i}": i for i in range(len(layers))} | {"readout": len(layers) - 1}
            if where not in names:
                raise LearnerError(
                    f"'{self.base.name}' has no state '{where}'; {nearest(str(where), names)}"
                )
            states = layers[names[where]]
            last_states = states[torch.arange(len(rows), device=self.device), ends]
            for row, state in zip(rows, last_states, strict=True):
                vectors[row] = state.float().cpu().numpy()

        with torch.no_grad(), computing("fp32", self.device):
            for rows in self._batches([len(s) for s in sources]):
                in_halves(rows, some)
        if not vectors:
            return np.zeros((0, 0), dtype=np.float32)
        return np.stack([v for v in vectors if v is not None])

    def _states(self, sources: Sequence[list[int]]) -> tuple[Sequence[Tensor], Tensor]:
        """States of all layers, and the position of each row's last token."""
        run = self.base.model
        if self.base.kind == "encoder-decoder":
            run = run.get_encoder()
        batch = collate(self.base, sources, [[] for _ in sources]).to(self.device)
        ends = batch.mask.sum(1) - 1
        given: dict[str, Tensor] = {"input_ids": batch.ids, "attention_mask": batch.mask}
        if self.prompt is not None:
            vectors, mask = with_prompts(
                self.base, batch.ids, batch.mask, self.prompt.unsqueeze(0), None
            )
            given = {"inputs_embeds": vectors, "attention_mask": mask}
            ends = ends + self.prompt.shape[0]
        layers: Sequence[Tensor] = run(**given, output_hidden_states=True).hidden_states
        return layers, ends

    def _begin(self, lengths: Sequence[int], setting: str = "") -> None:
        """Put the model into evaluation mode, with this task's adapter if it has several. Raise an
        error for inputs that are too long.
        """
        needed = max(lengths, default=0) + (0 if self.prompt is None else self.prompt.shape[0])
        if needed > self.base.longest:
            also = f", lower {setting}" if setting else ""
            raise LearnerError(
                f"an input needs {needed} tokens with its answer and '{self.base.name}' reads at"
                f" most {self.base.longest}; shorten the inputs{also}, show fewer examples, or take"
                " a model with a longer context"
            )
        self.base.model.eval()
        self.base.choice.task = self.task

    def _batches(self, lengths: Sequence[int], batch: int = 0) -> Iterator[list[int]]:
        # Rows of similar length share a batch, so that there is little padding.
        order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
        size = batch or self.batch
        for first in range(0, len(order), size):
            yield order[first : first + size]

    def save(self, folder: Path) -> None:
        """Save as the learner specifies."""
        self.learner.save(self, Path(folder))


def graded(
    answers: Sequence[str], sums: Sequence[float], counts: Sequence[int], rows: EncodedRows
) -> tuple[float, float]:
    """Share of acceptable answers, and mean loss per token."""
    judge = AnyOf()
    right = [
        judge.score(answer, example) for answer, example in zip(answers, rows.examples, strict=True)
    ]
    return sum(right) / len(right), sum(sums) / max(1, sum(counts))


def _until(ids: list[int], end: int) -> list[int]:
    return ids[: ids.index(end)] if end in ids else ids


def _padding_first(
    vectors: Tensor, whole: Tensor, mask: Tensor, prompt: int
) -> tuple[Tensor, Tensor]:
    """Move each row's padding from between prompt and input to the front, where position ids skip
    it.
    """
    width = vectors.shape[1]
    padding = (mask == 0).sum(1, keepdim=True)
    at = torch.arange(width, device=vectors.device).expand(len(vectors), -1)
    # Reorder from [prompt, padding, input] to [padding, prompt, input], by the source index of each
    # position.
    moved = torch.where(at < padding + prompt, at - padding, at)
    moved = torch.where(at < padding, at + prompt, moved)
    return vectors.gather(1, moved.unsqueeze(-1).expand_as(vectors)), whole.gather(1, moved)


T = TypeVar("T")


class TaskBatches:
    """The rows of several tasks that share a frozen model as one list, each with the adapter of its
    own task.

    On a GPU, a pass over a small model costs about the same for one row as for hundreds.
    """

    def __init__(self, models: Sequence[FittedLanguageModel], sizes: Sequence[int]) -> None:
        self.first = models[0]
        if any(model.base is not self.first.base for model in models):
            raise LearnerError(
                "tasks can only be answered together if they were trained together; these have"
                " separate models"
            )
        self.sizes = list(sizes)
        # A prompt is found by its position in the stack, and a LoRA adapter by its index in
        # training.
        prompts = [model.prompt for model in models if model.prompt is not None]
        self.prompts = torch.stack(prompts) if prompts else None
        numbers = list(range(len(models))) if prompts else [model.task for model in models]
        self.numbers: list[int] = []
        for number, size in zip(numbers, sizes, strict=True):
            self.numbers += [number] * size

    def adapters(self, rows: list[int]) -> tuple[Tensor | None, Tensor]:
        """Return the prompts, and the task of each row."""
        return self.prompts, torch.tensor(
            [self.numbers[row] for row in rows], device=self.first.device
        )

    def write(self, sources: Sequence[Sequence[int]]) -> list[str]:
        """Return the answers to all rows."""
        return self.first.extracted(self.first.say(sources, self.adapters))

    def losses(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]]
    ) -> tuple[list[float], list[int]]:
        """Return the summed loss and the number of target tokens of all rows."""
        return self.first.losses(sources, targets, self.adapters)

    def by_task(self, rows: Sequence[T]) -> list[list[T]]:
        """Return the rows of each task."""
        each = iter(rows)
        return [list(islice(each, size)) for size in self.sizes]


def answer_together(
    models: Sequence[FittedLanguageModel], inputs: Sequence[Sequence[str]]
) -> list[list[str]]:
    """Return each model's answers to its inputs."""
    batches = TaskBatches(models, [len(some) for some in inputs])
    sources = [model.read(texts(some)) for model, some in zip(models, inputs, strict=True)]
    recalled = [model.recall(some) for model, some in zip(models, sources, strict=True)]
    answers = [some for some in recalled if some is not None]
    if len(answers) == len(models):
        return answers
    return batches.by_task(batches.write(list(chain.from_iterable(sources))))


def score_together(
    models: Sequence[FittedLanguageModel], splits: Sequence[EncodedRows]
) -> list[tuple[float, float]]:
    """Return each model's share of acceptable answers, and its mean loss per token of the official
    answers.
    """
    batches = TaskBatches(models, [len(rows.sources) for rows in splits])
    sources = [source for rows in splits for source in rows.sources]
    answers = batches.by_task(batches.write(sources))
    for model, rows, written in zip(models, splits, answers, strict=True):
        model.remember(rows.sources, written)
    sums, counts = batches.losses(
        sources, [target[0] for rows in splits for target in rows.targets]
    )
    each = zip(answers, batches.by_task(sums), batches.by_task(counts), splits, strict=True)
    return [graded(*one) for one in each]
