"""What is reported on a file in bAbI format: our answer to each question, and what we think of the file's.

One report for all tasks, so that whoever reads it need not know which solver a file went to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from taskloom.errors import InputError
from taskloom.suites.babi.story.text_format import QuestionLine, StoryText

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
        """The official support."""
        return self.supports[0] if self.supports else ()

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
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
        """For people: our answer where the file claims none, otherwise the claim against what the text entails."""
        if self.verdict == "unclaimed":
            return f"line {self.line}: {self.question} {self.answer}: {self.proof}"
        ours = "the text leaves it open" if self.verdict == "open" else f"the text entails '{self.answer}'"
        also = "; the published convention gives the claimed answer" if self.by_convention else ""
        return f"line {self.line}: {self.question} claimed '{self.claimed}'; {ours}: {self.proof}{also}"


@dataclass(frozen=True, slots=True)
class StoryFileReport:
    """What came out for a file.

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
        """How many claimed answers agree, are wrong, are open."""
        return Counter(s.verdict for s in self.solved)

    @property
    def supports(self) -> Counter[str]:
        """How the cited supports compare with the minimal ones."""
        return Counter(s.support_verdict for s in self.solved)

    @property
    def differences(self) -> tuple[SolvedQuestion, ...]:
        """The questions whose claimed answer the text does not entail."""
        return tuple(s for s in self.solved if s.verdict in ("wrong", "open"))

    def to_dict(self) -> dict[str, Any]:
        """For machines: the same keys for every task."""
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
        """For people: the counts, each difference with its proof, and our answers where the file claims none."""
        task = "" if self.number is None else f"task {self.number}, "
        reading = "" if self.reading is None else f", {self.reading} reading"
        answers, supports = self.answers, self.supports
        stories = f"{self.stories} {'story' if self.stories == 1 else 'stories'}"
        questions = f"{len(self.solved)} {'question' if len(self.solved) == 1 else 'questions'}"
        out = [f"{self.path}: {task}{stories}, {questions}{reading}"]
        out += [f"  answers: {answers[k]:5} {k}: {words}" for k, words in VERDICTS.items() if answers[k]]
        out += [
            f"  support: {supports[k]:5} {k}: {words}"
            for k, words in SUPPORT_VERDICTS.items()
            if supports[k] and k != "unclaimed"
        ]
        out += [f"  {s.text()}" for s in self.solved if s.verdict != "agrees"]
        return "\n".join(out)


def refuse_cut(report: StoryFileReport, stories: list[StoryText]) -> StoryFileReport:
    """The report, unless its file ends inside a claim: one without line end that holds is whole, any other may be half a claim.

    Raises:
        InputError: With the line, and what to do if the claim is meant so.
    """
    asked = stories[-1].lines[-1]
    if not isinstance(asked, QuestionLine) or not asked.unended or asked.answer is None:
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
