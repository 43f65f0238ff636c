"""The ZEST score of a single prediction, for learners and studies that score one example at a
time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from taskloom.core.example import Example
from taskloom.core.scoring import CallableScorer, register


@dataclass(frozen=True, slots=True)
class ZestScore(CallableScorer):
    """The corrected evaluation of a single instance: word overlap under the best alignment, n/a as
    a class, structures matched by key.
    """

    name: str = "zest"

    def score(self, prediction: str, example: Example) -> float:
        """Return the F1 of the instance, or 1 for a correct n/a."""
        from taskloom.suites.zest.evaluation import corrected

        targets = example.targets
        return corrected.judge(targets[0] if len(targets) == 1 else targets, prediction).score

    def explain(self, prediction: str, example: Example) -> str:
        """Compare the prediction with the answer in one sentence."""
        from taskloom.suites.zest.evaluation import corrected

        targets = example.targets
        gold = targets[0] if len(targets) == 1 else targets
        judged = corrected.judge(gold, prediction)
        kind = corrected.mistake(gold, prediction, judged)
        verdict = corrected.MISTAKES[kind] if kind else "right"
        return (
            f"{verdict}: said {json.dumps(prediction, ensure_ascii=False)}, wanted {example.target}"
            f" ({judged.score:.2f})"
        )


zest = register(ZestScore())
