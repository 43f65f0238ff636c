"""What is reported on a file in bAbI format: our answer to each question, and what we think of the file's claim.

One judge and one report for all tasks, so that whoever reads it need not know which solver a file went to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from taskloom.core.errors import InputError
from taskloom.suites.babi.numbered.task import UNKNOWN, Proof
from taskloom.suites.babi.story.text_format import QuestionLine, StoryText

Entails = Callable[[frozenset[int]], bool]
"""Whether some sentences alone entail the claimed answer."""

VERDICTS = {
    "agrees": "the text entails the claimed answer",
    "wrong": "the text entails another answer",
    "open": "the text leaves the answer open",
    "unclaimed": "the file gives no answer",
}
SUPPORT_VERDICTS = {
    "official": "the shortest, then earliest minimal support",
    "minimal": "another minimal support, no sentence of it can be spared",
    "convention": "the sentences that the published convention uses where the text leaves the answer open",
    "larger": "sufficient, but some sentence of it can be spared",
    "insufficient": "the cited sentences do not entail the answer",
    "unclaimed": "nothing to compare",
}


@dataclass(frozen=True, slots=True)
class SolvedQuestion:
    """One question of a file, with our answer and what we think of the file's.

    Attributes:
        line: Its line in the file.
        question: The question.
        answer: What the text entails, or `unknown`.
        supports: All minimal supporting sets as line numbers within the story, the official one first.
        proof: In words; for `unknown`, what is missing or what remains possible.
        claimed: The file's answer, or None where it gives none.
        cited: The file's supporting lines.
        verdict: One of `VERDICTS`.
        support_verdict: One of `SUPPORT_VERDICTS`.
        others: Further right answers, where a question has several.
        by_convention: The text leaves the answer open, and the published convention gives the claimed one.
    """

    line: int
    question: str
    answer: str
    supports: tuple[tuple[int, ...], ...]
    proof: str
    claimed: str | None
    cited: tuple[int, ...]
    verdict: str
    support_verdict: str
    others: tuple[str, ...] = ()
    by_convention: bool = False

    @property
    def support(self) -> tuple[int, ...]:
        """Return the official support."""
        return self.supports[0] if self.supports else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for machines."""
        return {
            "line": self.line,
            "question": self.question,
            "answer": self.answer,
            "others": list(self.others),
            "support": list(self.support),
            "supports": [list(s) for s in self.supports],
            "proof": self.proof,
            "claimed": self.claimed,
            "cited": list(self.cited),
            "verdict": self.verdict,
            "support_verdict": self.support_verdict,
            "by_convention": self.by_convention,
        }

    def text(self) -> str:
        """Write for people: our answer where the file claims none, otherwise the claim against what the text entails."""
        if self.verdict == "unclaimed":
            return f"line {self.line}: {self.question} {self.answer}: {self.proof}"
        ours = (
            "the text leaves it open"
            if self.verdict == "open"
            else f"the text entails '{self.answer}'"
        )
        also = "; the published convention gives the claimed answer" if self.by_convention else ""
        return f"line {self.line}: {self.question} claimed '{self.claimed}'; {ours}: {self.proof}{also}"


@dataclass(frozen=True, slots=True)
class StoryFileReport:
    """The answers to the questions of a file, and the verdicts on its claims.

    Attributes:
        path: The file, or what stands for it.
        stories: How many stories it holds.
        solved: Its questions in order.
        number: The task, where its words tell it (14 to 20); None for the tasks that share their words.
        reading: How much a sentence was taken to say; None for the tasks 14 to 20, which have one reading.
    """

    path: str
    stories: int
    solved: tuple[SolvedQuestion, ...]
    number: int | None = None
    reading: str | None = None

    @property
    def answers(self) -> Counter[str]:
        """Count the claimed answers that agree, are wrong, are open."""
        return Counter(s.verdict for s in self.solved)

    @property
    def supports(self) -> Counter[str]:
        """Count how the cited supports compare with the minimal ones."""
        return Counter(s.support_verdict for s in self.solved)

    @property
    def differences(self) -> tuple[SolvedQuestion, ...]:
        """Return the questions whose claimed answer the text does not entail."""
        return tuple(s for s in self.solved if s.verdict in ("wrong", "open"))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for machines: the same keys for every task."""
        return {
            "path": self.path,
            "task": self.number,
            "reading": self.reading,
            "stories": self.stories,
            "questions": len(self.solved),
            "answers": dict(sorted(self.answers.items())),
            "supports": dict(sorted(self.supports.items())),
            "solved": [s.to_dict() for s in self.solved],
        }

    def text(self) -> str:
        """Write for people: the counts, each difference with its proof, and our answers where the file claims none."""
        task = "" if self.number is None else f"task {self.number}, "
        reading = "" if self.reading is None else f", {self.reading} reading"
        answers, supports = self.answers, self.supports
        stories = f"{self.stories} {'story' if self.stories == 1 else 'stories'}"
        questions = f"{len(self.solved)} {'question' if len(self.solved) == 1 else 'questions'}"
        out = [f"{self.path}: {task}{stories}, {questions}{reading}"]
        out += [
            f"  answers: {answers[k]:5} {k}: {words}" for k, words in VERDICTS.items() if answers[k]
        ]
        out += [
            f"  support: {supports[k]:5} {k}: {words}"
            for k, words in SUPPORT_VERDICTS.items()
            if supports[k] and k != "unclaimed"
        ]
        out += [f"  {s.text()}" for s in self.solved if s.verdict != "agrees"]
        return "\n".join(out)


def judge(
    line: QuestionLine,
    proof: Proof,
    *,
    agrees: bool,
    entails: Entails,
    convention: Proof | None = None,
) -> SolvedQuestion:
    """Compare the claim of a file with what its text entails.

    Args:
        line: The question with the claimed answer and support.
        proof: What the text entails.
        agrees: Whether the claimed answer says the same as ours.
        entails: Tells whether some sentences alone entail the claimed answer.
        convention: Where the text leaves the answer open, what the published convention gives.
    """
    reference, by_convention = proof, False
    if line.answer is None:
        verdict = "unclaimed"
    elif agrees:
        verdict = "agrees"
    elif proof.answer == UNKNOWN:
        verdict = "open"
        if convention is not None:
            reference, by_convention = convention, line.answer == convention.answer
    else:
        verdict = "wrong"
    support = "unclaimed"
    if line.support and (verdict == "agrees" or by_convention):
        support = _judge_support(frozenset(line.support), reference, entails)
        if support == "official" and by_convention:
            support = "convention"
    return SolvedQuestion(
        line.line,
        line.text,
        proof.answer,
        proof.supports,
        proof.why,
        line.answer,
        line.support,
        verdict,
        support,
        others=proof.others,
        by_convention=by_convention,
    )


def _judge_support(cited: frozenset[int], reference: Proof, entails: Entails) -> str:
    if reference.supports and cited == frozenset(reference.supports[0]):
        return "official"
    if not entails(cited):
        return "insufficient"
    parts = map(frozenset, combinations(sorted(cited), len(cited) - 1))
    return "larger" if any(map(entails, parts)) else "minimal"


def refuse_cut(report: StoryFileReport, stories: list[StoryText]) -> StoryFileReport:
    """Return the report, unless its file ends inside a claim: one without line end that holds is whole, any other may be half.

    Raises:
        InputError: With the line, and what to do if the claim is meant so.
    """
    line = stories[-1].lines[-1]
    if not isinstance(line, QuestionLine) or not line.unended or line.answer is None:
        return report
    last = report.solved[-1]
    fails = last.verdict in ("wrong", "open") and not last.by_convention
    if fails or last.support_verdict == "insufficient":
        cited = "".join(f" {n}" for n in last.cited)
        raise InputError(
            f"{report.path}:{last.line}: the file ends without a line end in '{last.claimed}{cited}', which does not answer "
            f"{last.question!r}, so it may be cut off here; end the line if that is the whole claim"
        )
    return report
