"""Trained models of CTL++ runs, with the world that they were trained on."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis.published_numbers import recipe_of
from taskloom.analysis.study import StudyError, check_choice
from taskloom.core.files import path_of
from taskloom.experiments.table import Runs
from taskloom.learners.saved import load
from taskloom.papers.ctlpp.accuracy_table import SUCCESS
from taskloom.papers.ctlpp.runs import Trainings, of_learner, trainings
from taskloom.suites.ctl.fields import CtlFields
from taskloom.suites.ctl.world import SymbolWorld, build

if TYPE_CHECKING:
    from taskloom.learners.interface import Fitted


USUAL = "ndr"
"""Learner whose models the paper inspects."""


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A trained model.

    Attributes:
        name: Model, variant and seed, for captions.
        fitted: The model.
        world: The functions and their groups.
        outermost_first: True if expressions begin with the function that is applied last.
        ood: Its ood accuracy.
    """

    name: str
    fitted: Fitted
    world: SymbolWorld
    outermost_first: bool
    ood: float

    @property
    def succeeds(self) -> bool:
        """True if the ood accuracy is above 95 %."""
        return self.ood > SUCCESS

    def text(self, functions: Sequence[int], symbol: int) -> str:
        """Write the expression that applies the functions, given in order of application, to a
        symbol.
        """
        names = [self.world.names[f] for f in functions]
        words = [*reversed(names), str(symbol)] if self.outermost_first else [str(symbol), *names]
        return " ".join(words)

    def states(self, where: str = "readout") -> NDArray[np.float64]:
        """Vector of each output symbol for each function: [symbol, function, size of the state].

        This is the vector of the expression `f s` with f(s) = symbol. It is unique, because every
        function is bijective.
        """
        functions, symbols = self.world.images.shape
        texts = [self.text([f], s) for f in range(functions) for s in range(symbols)]
        vectors = np.asarray(self.fitted.represent(texts, where), dtype=np.float64).reshape(
            functions, symbols, -1
        )
        by_output = np.empty((symbols, functions, vectors.shape[-1]))
        for f in range(functions):
            by_output[self.world.images[f], f] = vectors[f]
        return by_output

    def pair_scores(self) -> NDArray[np.bool_]:
        """True where the model answers the composition of two functions correctly: [symbol, first
        function, second function].
        """
        functions, symbols = self.world.images.shape
        places = list(product(range(symbols), range(functions), range(functions)))
        answers = self.fitted.answer([self.text([f, g], s) for s, f, g in places])
        images = self.world.images
        right = [
            a == str(images[g, images[f, s]]) for a, (s, f, g) in zip(answers, places, strict=True)
        ]
        return np.array(right).reshape(symbols, functions, functions)


@contextmanager
def _open_states(path: Path) -> Iterator[Any]:
    """Open a file of states. Raises a `StudyError` if it is not a file of states."""
    remedy = "'benchmarks/ctlpp_gpu.py train' writes such files, and docs/results/ctlpp has some"
    if not path.is_file():
        raise StudyError(f"there is no file of states {path}; {remedy}")
    if not zipfile.is_zipfile(path):
        raise StudyError(f"{path} has no states, since it is not a whole .npz file; {remedy}")
    try:
        with np.load(path, allow_pickle=False) as file:
            yield file
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise StudyError(f"{path} has no states of single functions ({error}); {remedy}") from error


class StoredStates:
    """Stored states of every `function symbol` expression and answers to every pair of functions,
    used in place of a model.

    The files are written by `benchmarks/ctlpp_gpu.py train` and `benchmarks/learners_gpu.py run`.
    Only files of the former contain answers.

    Args:
        path: The file.
        place: Index of the model in the file, or among the models of its training.
        training: Name of the training, if the file has states of several.
    """

    def __init__(self, path: Path, place: int, training: str = "") -> None:
        prefix = f"{training}." if training else ""
        with _open_states(path) as file:
            texts, states = file["singles"], file[f"{prefix}singles.readout"]
            pairs = (
                [file[name] for name in ("pairs", f"{prefix}pairs.answers", "classes")]
                if "pairs" in file
                else []
            )
            row = _row_of_answers(file, place)
        if not 0 <= place < len(states):
            raise StudyError(
                f"{path} has the states of {len(states)} models; there is none with the number"
                f" {place}"
            )
        self._path = path
        self._states = dict(zip(texts.tolist(), states[place].astype(np.float32), strict=True))
        self._answers: dict[str, str] = {}
        if pairs and row is not None:
            inputs, answers, classes = pairs
            self._answers = dict(zip(inputs.tolist(), classes[answers[row]].tolist(), strict=True))

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """Stored state of each input."""
        missing = [text for text in inputs if text not in self._states]
        if where != "readout" or missing:
            what = f"states at '{where}'" if where != "readout" else f"state of '{missing[0]}'"
            raise StudyError(f"{self._path} has no {what}; only of single functions, at 'readout'")
        return np.stack([self._states[text] for text in inputs])

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Stored answer to each input."""
        missing = [text for text in inputs if text not in self._answers]
        if missing:
            raise StudyError(
                f"{self._path} has no answer to '{missing[0]}'; files of 'benchmarks/ctlpp_gpu.py"
                " train' have those to all pairs"
            )
        return [self._answers[text] for text in inputs]


ANSWERED = "pairs.seeds"
"""Key of the seeds with answers to pairs, in files that also have states of other seeds."""


def _row_of_answers(file: Any, place: int) -> int | None:
    """Row of a model's answers to pairs in a file. None if the file has no answers of this
    model.
    """
    if ANSWERED not in file:
        return place
    answered = file[ANSWERED].tolist()
    seed = int(file["seeds"][place])
    return answered.index(seed) if seed in answered else None


def stored_seeds(path: Path, answers: bool = False) -> list[int] | None:
    """Seeds with states in a file or, with `answers`, only those that also have answers to pairs.
    None if the file does not list its seeds.
    """
    with _open_states(path) as file:
        key = ANSWERED if answers and ANSWERED in file else "seeds"
        return [int(seed) for seed in file[key]] if key in file else None


def stored_kind(path: Path) -> tuple[str, str, str] | None:
    """Learner, variant and draw of the models in a file of states. None if the file does not record
    them.
    """
    with _open_states(path) as file:
        if "learner" not in file:
            return None
        variant, _, draw = str(file["data"]).partition("-")
        return str(file["learner"]), variant, draw or "published"


def stored_trainings(path: Path) -> dict[str, list[int]]:
    """Seeds by training, for a file with states of several trainings."""
    end = ".seeds"
    with _open_states(path) as file:
        return {
            name.removesuffix(end): file[name].tolist()
            for name in file.files
            if name.endswith(end) and name != ANSWERED
        }


def trained_model(
    runs: Runs, group: Trainings, seed: int, states: str = "", training: str = ""
) -> TrainedModel:
    """Load the model of a seed, or its states if a file is given.

    Args:
        runs: Runs that kept their models.
        group: The seed's trainings.
        seed: The seed.
        states: A file of states in place of kept models.
        training: Name of the training, if the file has states of several.
    """
    run = group.runs[seed]
    folder = runs.model(run)
    if not states and folder is None:
        raise StudyError(
            f"the run {run} of {runs.path} kept no model; run the experiment with keep: {{model:"
            " true}, or name a file of states (states=FILE.npz; docs/results/ctlpp has some)"
        )
    fields = recipe_of(runs, run).fields
    assert isinstance(fields, CtlFields)
    ood = group.scores.get("ood", {}).get(seed, float("nan"))
    name = f"{group.label} on {group.variant}, seed {seed}"
    fitted: Any = (
        _stored(path_of(states), group, seed, training)
        if states or folder is None
        else load(folder)
    )
    return TrainedModel(name, fitted, build(fields), fields.order == "right-to-left", ood)


def _stored(path: Path, group: Trainings, seed: int, training: str) -> StoredStates:
    seeds = stored_trainings(path)[training] if training else stored_seeds(path)
    return StoredStates(path, (seeds or group.seeds).index(seed), training)


def learned_seeds(
    runs: Runs,
    *,
    learner: str,
    variant: str,
    converged: float,
    states: str = "",
    draw: str = "published",
    answers: bool = False,
) -> list[tuple[Trainings, int]]:
    """Trainings and seeds from which `chosen_model` chooses if called with the same arguments."""
    stored, kind = None, None
    if states:
        stored, kind = stored_seeds(path_of(states), answers), stored_kind(path_of(states))
    usual = kind[0] if kind else USUAL
    groups = _preferred(runs, learner, variant, draw, usual)
    if kind:
        groups = [g for g in groups if (g.model, variant, g.export) == kind]
        if not groups:
            raise StudyError(
                f"{states} has states of {kind[0]} on {kind[1]}, draw {kind[2]}, which are not"
                f" those of the chosen runs ({learner or usual} on {variant}, draw {draw}); name"
                " another file, or set learner, variant and draw"
            )
    pairs = []
    for group in groups:
        seeds = group.seeds if stored is None else stored
        if not set(seeds) <= set(group.seeds):
            continue
        iid = group.scores.get("iid", {})
        pairs += [(group, seed) for seed in seeds if iid.get(seed, 1.0) >= converged]
    if not pairs:
        raise StudyError(
            f"no seed in {runs.path} reaches an iid accuracy of {converged:g} on {variant}; train"
            " for more steps"
        )
    return pairs


def _preferred(runs: Runs, learner: str, variant: str, draw: str, usual: str) -> list[Trainings]:
    """Select trainings on a variant. If possible, only use trainings of one learner and one draw
    that kept their models.

    Args:
        runs: The runs.
        learner: Name of the learner, which must have trainings here. Empty: prefer `usual`.
        variant: A or R.
        draw: How the training data were drawn.
        usual: Preferred learner if none is named.
    """
    every = trainings(runs, variant)
    groups = [g for g in every if _kept(runs, g)] or every
    if learner:
        groups = of_learner(runs, groups, learner)
    else:
        groups = [g for g in groups if g.model == usual] or groups
    return [g for g in groups if g.draw == draw] or groups


def chosen_model(
    runs: Runs,
    *,
    learner: str,
    variant: str,
    wanted: str,
    seed: int | None = None,
    converged: float = 0.0,
    states: str = "",
    draw: str = "published",
    answers: bool = False,
) -> TrainedModel:
    """Load the seed with the lowest or the highest accuracy of a learner on a variant.

    Args:
        runs: Runs that kept their models.
        learner: Name of the learner. Default: NDR, or any if there is no run of NDR.
        variant: A or R.
        wanted: `failed` or `successful`.
        seed: Use this seed instead.
        converged: Exclude seeds with a lower iid accuracy, because a model that has not learned the
            task says nothing about compositions.
        states: A file of states in place of kept models. Its states belong to the seeds that it
            lists, or else to the seeds of these runs in order.
        draw: Draw of the training data. Any draw if no run has that one.
        answers: True to choose only seeds whose answers to pairs are in the file of states.
    """
    pairs = learned_seeds(
        runs,
        learner=learner,
        variant=variant,
        converged=converged,
        states=states,
        draw=draw,
        answers=answers,
    )
    if seed is not None:
        check_choice(runs, "seed", str(seed), (str(s) for _, s in pairs))
        pairs = [(g, s) for g, s in pairs if s == seed]
    order = sorted(pairs, key=lambda pair: pair[0].scores.get("ood", {}).get(pair[1], 0.0))
    group, chosen = order[0] if wanted == "failed" else order[-1]
    return trained_model(runs, group, chosen, states)


def _kept(runs: Runs, group: Trainings) -> bool:
    return any(runs.model(run) is not None for run in group.runs.values())


def outcome_note(model: TrainedModel, wanted: str) -> Iterable[str]:
    """Yield a note if no seed had the requested outcome."""
    if model.succeeds != (wanted == "successful"):
        yield (
            f"No {wanted} seed was found: the ood accuracy of {model.name} is {model.ood:.3f}, and"
            f" a seed succeeds over {SUCCESS:g}."
        )
