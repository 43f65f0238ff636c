"""ZEST files: tasks with passages and answers, and predictions for them.

Each line is a task in JSON, with the keys `id`, `question`, `type` (`generalization_type`,
`derives_from`, `domain`) and `examples`, each with a `context` and an `answer`. Test files
published without answers lack `type` and `answer`. `read_tasks` rejects what cannot be a ZEST file.
`problems` lists what can be read but is probably wrong.

`statistics` computes the rows of the paper's Table 2, and the distribution of types, domains and
formats.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from taskloom.core.errors import InputError, nearest
from taskloom.core.example import Example
from taskloom.core.files import refuse_special
from taskloom.core.predictions import Prediction, PredictionSource, open_source, parse_prediction

Kind = Literal["normal", "paraphrase", "target_semantics", "combination", "structure"]

KINDS: tuple[Kind, ...] = ("normal", "paraphrase", "target_semantics", "combination", "structure")
"""The generalization types by the names that the files use."""

PAPER_NAMES: dict[str, str] = {
    "normal": "base",
    "paraphrase": "paraphrase",
    "combination": "composition",
    "target_semantics": "semantic flips",
    "structure": "output structure",
}
"""Names of the generalization types in the paper, in the order of its Table 4."""

Answer = str | tuple[str, ...]

Format = Literal["classification", "extraction", "structure"]


@dataclass(frozen=True, slots=True)
class Instance:
    """A passage with its answer: a text, the alternatives of several annotators, or None if it was
    not published.
    """

    context: str
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class ZestTask:
    """A task: its description in the form of a question, and its instances.

    Attributes:
        id: Id of the task, which derived tasks use to refer to their base tasks.
        question: The description.
        kind: The generalization type, or None in files without answers.
        derives_from: The ids of the base tasks.
        domain: Topic of the passages.
        instances: Passages and answers in file order.
        line: Line number in the file, for messages.
    """

    id: str
    question: str
    kind: Kind | None
    derives_from: tuple[str, ...]
    domain: str
    instances: tuple[Instance, ...]
    line: int = 0

    @property
    def format(self) -> Format:
        """Output type, as far as the answers show it: structures, yes/no, or spans."""
        answers = [a for i in self.instances for a in alternatives(i.answer)]
        if self.kind == "structure" or any(is_structure(a) for a in answers):
            return "structure"
        texts = {a.strip().lower() for a in answers if not is_na(a)}
        # If all answers are n/a, only the first word of the question shows the type. These are the
        # public script's words.
        if not texts:
            return (
                "classification"
                if first_word(main_clause(self.question)) in CLASSIFICATION_WORDS
                else "extraction"
            )
        return "classification" if texts <= {"yes", "no"} else "extraction"


EXTRACTION_WORDS = frozenset(
    re.findall(
        r"\S+",
        "what's which what when where how on who in per the at could aside during how's pertaining",
    )
)
CLASSIFICATION_WORDS = frozenset(
    re.findall(r"\S+", "does are is am can do did was were should has have will while after")
)


def first_word(question: str) -> str:
    """Return the word by which the public script classifies a question as classification or
    extraction.
    """
    words = question.split()
    return words[0].lower() if words else ""


def main_clause(question: str) -> str:
    """Remove a leading adverbial clause from a question.

    >>> main_clause("After leaving office, where did this president go?")
    'where did this president go?'
    """
    before, comma, rest = question.partition(",")
    return rest.strip() if comma and first_word(before) in ("after", "while") else question


def is_na(text: str) -> bool:
    """True if a gold answer means that the passage does not answer the question."""
    return text.strip().lower() in ("n/a", "na")


def is_structure(text: str) -> bool:
    """True if a gold answer is a JSON list of objects."""
    return "}" in text


def alternatives(answer: Answer | None) -> tuple[str, ...]:
    """Return the acceptable answers of an instance."""
    if answer is None:
        return ()
    return (answer,) if isinstance(answer, str) else answer


def lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a text file as the public script reads them, with white space
    removed from both ends.
    """
    path = Path(path)
    if path.is_dir() or not path.exists():  # a pipe is not a regular file, but can be read
        raise InputError(
            f"{path} is a folder; name a file in it"
            if path.is_dir()
            else f"there is no file {path}"
        )
    refuse_special(path, InputError, pipes=True)
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                yield number, line.strip()
    except UnicodeDecodeError as error:
        # Python gives the position in its buffer, not in the file.
        raise InputError(
            f"{path} is not UTF-8 text (after line {number}); save it as UTF-8"
        ) from error


def read_tasks(path: str | Path) -> list[ZestTask]:
    """Read and check a file of tasks."""
    numbered = [
        (n, line.removeprefix("\ufeff")) for n, line in lines(path)
    ]  # some editors write a byte order mark first
    tasks = [_task(_object(line, f"{path}:{n}"), f"{path}:{n}", n) for n, line in numbered if line]
    if not tasks:
        raise InputError(f"{path} has no tasks; a ZEST file has one JSON object per line")
    return tasks


def write_tasks(path: str | Path, tasks: Iterable[ZestTask]) -> None:
    """Write tasks as a ZEST file, readable by the public script and other people's code."""
    # Half of a surrogate pair, which is valid in JSON but not in UTF-8, is written as JSON's
    # escape.
    with Path(path).open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(task_lines(tasks))


def task_lines(tasks: Iterable[ZestTask]) -> Iterator[str]:
    """Yield the lines of a ZEST file."""
    for task in tasks:
        yield json.dumps(_row(task), ensure_ascii=False) + "\n"


def _row(task: ZestTask) -> dict[str, Any]:
    examples: list[dict[str, Any]] = []
    for instance in task.instances:
        answer = list(instance.answer) if isinstance(instance.answer, tuple) else instance.answer
        examples.append(
            {
                "context": instance.context,
                "answer": answer,
                "all_answers": list(alternatives(instance.answer)),
            }
        )
    kind = {
        "generalization_type": task.kind,
        "derives_from": list(task.derives_from),
        "domain": task.domain,
    }
    return {"id": task.id, "type": kind, "question": task.question, "examples": examples}


def task_of(examples: Sequence[Example], line: int = 0) -> ZestTask:
    """Build the task to which these examples of a dataset belong. Without the traits of ZEST it
    counts as a base task.
    """
    first = examples[0]
    kind = first.traits.get("generalization_type") or "normal"
    if kind not in KINDS:
        raise InputError(
            f"task {first.task}: unknown generalization type {kind!r}; {nearest(str(kind), KINDS)}"
        )
    bases = tuple(str(first.traits.get("derives_from") or "").split())
    instances = tuple(
        Instance(e.input, e.targets[0] if len(e.targets) == 1 else e.targets) for e in examples
    )
    return ZestTask(
        first.task,
        first.question or first.task,
        kind,
        bases,
        str(first.traits.get("domain") or ""),
        instances,
        line,
    )


def tasks_from(rows: Iterable[Any]) -> list[ZestTask]:
    """Check tasks that are already in memory (one dictionary per task)."""
    return [_task(row, f"task {n}", n) for n, row in enumerate(rows, start=1)]


def _object(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where} is not JSON ({error}); a ZEST file has one JSON object per line"
        ) from error


def _task(row: Any, where: str, line: int) -> ZestTask:
    if not isinstance(row, dict):
        raise InputError(
            f"{where} must be a JSON object with id, question and examples, not"
            f" {type(row).__name__}"
        )
    for key, wanted in (("id", str), ("question", str), ("examples", list)):
        if not isinstance(row.get(key), wanted):
            fault = (
                f"has no '{key}'"
                if key not in row
                else f"has a '{key}' that is not {_NAMES[wanted]}"
            )
            raise InputError(f"{where} {fault}; a ZEST task has id, question, type and examples")
    kind, bases, domain = _type(row.get("type"), where)
    instances = tuple(
        _instance(e, f"{where}, example {i}") for i, e in enumerate(row["examples"], start=1)
    )
    return ZestTask(row["id"], row["question"], kind, bases, domain, instances, line)


_NAMES = {str: "a text", list: "a list", dict: "an object"}


def _type(given: Any, where: str) -> tuple[Kind | None, tuple[str, ...], str]:
    if given is None:
        return None, (), ""
    if not isinstance(given, dict) or "generalization_type" not in given:
        raise InputError(
            f"{where}: 'type' must be an object with generalization_type, derives_from and domain"
        )
    kind = given["generalization_type"]
    if kind not in KINDS:
        raise InputError(
            f"{where}: unknown generalization type {kind!r}; {nearest(str(kind), KINDS)}"
        )
    bases = given.get("derives_from") or []
    if not isinstance(bases, list) or not all(isinstance(b, str) for b in bases):
        raise InputError(f"{where}: 'derives_from' must be a list of task ids")
    domain = given.get("domain")
    if not isinstance(domain, str | None):
        raise InputError(f"{where}: 'domain' must be a text, not {json.dumps(domain)[:60]}")
    return kind, tuple(bases), domain or ""


def _instance(given: Any, where: str) -> Instance:
    if not isinstance(given, dict) or not isinstance(given.get("context"), str):
        raise InputError(f"{where} has no 'context' text")
    answer = given.get("answer")
    if isinstance(answer, list) and any(isinstance(a, dict) for a in answer):
        raise InputError(
            f"{where}: a structured 'answer' must be a JSON text, not a list of objects; write it "
            "with json.dumps"
        )
    if isinstance(answer, list) and answer and all(isinstance(a, str) for a in answer):
        return Instance(given["context"], tuple(answer))
    if answer is None or isinstance(answer, str):
        return Instance(given["context"], answer)
    raise InputError(
        f"{where}: 'answer' must be a text or a list of alternative texts, not"
        f" {json.dumps(answer)[:60]}"
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a readable file that is probably wrong."""

    task: str
    line: int
    what: str


def problems(tasks: Sequence[ZestTask]) -> list[Problem]:
    """List the problems that a user should check before using a file, each with its task."""
    first: dict[str, int] = {}
    bases = {t.id for t in tasks if t.kind == "normal"}
    oddities: list[Problem] = []
    for task in tasks:
        texts = [f"its id is already used on line {first[task.id]}"] if task.id in first else []
        first.setdefault(task.id, task.line)
        texts += [*_structural_problems(task, bases), *_answer_problems(task)]
        oddities += [Problem(task.id, task.line, text) for text in texts]
    return oddities


def _structural_problems(task: ZestTask, bases: Set[str]) -> Iterator[str]:
    if not task.instances:
        yield "it has no examples"
    if task.kind == "normal" and task.derives_from:
        yield "a base task must not derive from other tasks"
    if task.kind not in (None, "normal"):
        if not task.derives_from:
            yield "it does not name the base task from which it derives"
        for base in task.derives_from:
            if base not in bases:
                yield f"it derives from {base}, which is not a base task of this file"


def _answer_problems(task: ZestTask) -> Iterator[str]:
    for number, instance in enumerate(task.instances, start=1):
        for text in alternatives(instance.answer):
            if is_structure(text) and parse_structure(text) is None:
                yield (
                    f"the answer of example {number} contains a brace but is not a JSON list of "
                    "objects"
                )
            if not text.strip():
                yield (
                    f"the answer of example {number} is empty; write n/a if the passage does not "
                    "answer the question"
                )


def parse_structure(text: str) -> list[dict[str, Any]] | None:
    """Parse the objects of a structured answer. Return None if it is not a JSON list of objects."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(parsed, list) and parsed and all(isinstance(d, dict) for d in parsed):
        return parsed
    return None


BRACE = "⁇"
"""T5's substitute for braces, which are not in its vocabulary."""


def read_script_predictions(source: str | Path | PredictionSource) -> list[Prediction]:
    """Read predictions like the public script, one per line in the order tasks x examples of the
    gold file.

    In contrast to `prediction_files`, white space is removed from both ends, an unquoted empty line
    is an error, and pairs of T5's substitute for braces become braces again.
    """
    content = source if isinstance(source, PredictionSource) else open_source(source)
    try:
        # Split lines like the script's own `open`. A byte order mark remains, as it does there.
        file = io.TextIOWrapper(io.BytesIO(content.data), encoding="utf-8")
        return [
            parse_script_prediction(line.strip(), number)
            for number, line in enumerate(file, start=1)
        ]
    except UnicodeDecodeError as error:
        raise InputError(f"{content.name} is not UTF-8 text; save it as UTF-8") from error


def parse_script_prediction(line: str, number: int) -> Prediction:
    """Parse one line like the public script."""
    prediction = parse_prediction(line, number)
    fault = prediction.fault if line else 'the line is empty; write "" for an empty prediction'
    return Prediction(with_braces(prediction.text), number, fault)


def with_braces(text: str) -> str:
    """Return a text in which pairs of T5's substitute are braces again."""
    while BRACE in text:
        text = text.replace(BRACE, "{", 1).replace(BRACE, "}", 1)
    return text


PAPER: dict[str, dict[str, float]] = {
    "train": {
        "pairs": 10_766,
        "passage_words": 121,
        "tasks": 538,
        "task_words": 12.3,
        "na": 0.62,
        "classification": 0.46,
    },
    "dev": {
        "pairs": 2_280,
        "passage_words": 122,
        "tasks": 114,
        "task_words": 12.2,
        "na": 0.67,
        "classification": 0.49,
    },
    "test": {
        "pairs": 11_980,
        "passage_words": 122,
        "tasks": 599,
        "task_words": 11.8,
        "na": 0.62,
        "classification": 0.44,
    },
}
"""The paper's Table 2."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The values of Table 2 for some tasks, and the distribution of their types, domains and
    formats.

    Attributes:
        pairs: Number of (task, passage) pairs.
        passage_words: Mean number of words per passage.
        tasks: Number of tasks.
        task_words: Mean number of words per description.
        na: Share of pairs whose answer is n/a.
        classification: Share of tasks with yes/no answers.
        types: Number of tasks by generalization type.
        domains: Number of tasks by domain.
        formats: Number of tasks by output type.
    """

    pairs: int
    passage_words: float
    tasks: int
    task_words: float
    na: float
    classification: float
    types: dict[str, int]
    domains: dict[str, int]
    formats: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values."""
        return asdict(self)


def statistics(tasks: Sequence[ZestTask]) -> Statistics:
    """Compute the statistics of tasks with answers."""
    instances = [i for t in tasks for i in t.instances]
    formats = Counter(str(t.format) for t in tasks)
    return Statistics(
        pairs=len(instances),
        passage_words=_mean([len(i.context.split()) for i in instances]),
        tasks=len(tasks),
        task_words=_mean([len(t.question.split()) for t in tasks]),
        na=_mean([says_na(i.answer) for i in instances]),
        classification=formats["classification"] / len(tasks) if tasks else 0.0,
        types=dict(Counter(str(t.kind) for t in tasks)),
        domains=dict(Counter(t.domain for t in tasks)),
        formats=dict(formats),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def says_na(answer: Answer | None) -> bool:
    """True if an answer is n/a, as a text or as a structure whose values are all n/a."""
    for text in alternatives(answer)[:1]:
        objects = parse_structure(text) if is_structure(text) else None
        if objects is not None:
            return all(is_na(json.dumps(v).strip('"')) for d in objects for v in d.values())
        return is_na(text)
    return False
