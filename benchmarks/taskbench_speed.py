"""CPU seconds of the function suite beside the published code's figures (spec of TaskBench500,
section 6).

Run it with TASKLOOM_DATA set; the lexicon is compiled first if the cache is cold.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from taskloom.core.errors import InputError
from taskloom.data import make as making
from taskloom.recipe import read
from taskloom.suites.taskbench.worlds.words.lexicon import open_lexicon
from taskloom.verbs import answerer

REFERENCE_LEXICAL = (2_100, 2_700)
"""CPU seconds of the published code for the 211 lexical and random tasks, extrapolated: 35 to 45
minutes.
"""

REFERENCE_MAP = 51.1
"""CPU seconds of the published code for 10,000 sequences of map(synonyms[eng])."""


def measured(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def rows_of(name: str, *changes: str) -> int:
    plan = read(name, changes).plan(0)
    return sum(split.rows(0, split.n).num_rows for split in plan.splits if split.n)  # type: ignore[union-attr]


def apply_all(name: str) -> int:
    answer = answerer(name, ["lexicon=nltk"])
    lexicon = open_lexicon("nltk")
    answered = 0
    for word in lexicon.vocabulary["eng"].tolist():
        try:
            answer(lexicon.texts[word])
        except InputError:
            continue
        answered += 1
    return answered


def main() -> None:
    if not os.environ.get("TASKLOOM_DATA"):
        print("TASKLOOM_DATA is not set: nothing measured")
        return
    cold = measured(lambda: open_lexicon("nltk"))
    open_lexicon.cache_clear()
    warm = measured(lambda: open_lexicon("nltk"))
    print(
        f"lexicon: first opening {cold:.2f} CPU s (compiles where the cache is cold), from the"
        f" cache {warm:.2f}"
    )

    small = ["sequences.n=10000", "answers=false", "few_shot=null", "lexicon=nltk"]
    seconds = measured(lambda: rows_of("taskbench/map(synonyms[eng])", *small))
    print(
        f"10,000 map(synonyms[eng]) sequences: {seconds:.2f} CPU s; reference {REFERENCE_MAP}"
        f" ({REFERENCE_MAP / seconds:.0f}x)"
    )

    start = time.process_time()
    answered = apply_all("taskbench/chain(antonyms[eng], hyponyms[eng])")
    seconds = time.process_time() - start
    print(
        f"apply chain(antonyms, hyponyms): 9,143 inputs ({answered:,} in the domain),"
        f" {9_143 / seconds:,.0f} a CPU second"
    )

    with tempfile.TemporaryDirectory() as folder:
        seconds = measured(lambda: making.make("taskbench/words", Path(folder) / "words"))
        low, high = (figure / seconds for figure in REFERENCE_LEXICAL)
        said = f"reference 2,100-2,700 ({low:.0f}-{high:.0f}x)"
        print(f"211 lexical and random tasks, written as Parquet: {seconds:.1f} CPU s; {said}")
        facts = Path(os.environ["TASKLOOM_DATA"]) / "wikidata" / "wikidata-subset.nt.gz"
        change = ["catalog={families: [factual]}", f"facts={facts}"]
        seconds = measured(lambda: making.make("taskbench/500", Path(folder) / "facts", set=change))
        said = "reference: up to 12.2 million queries"
        print(
            f"285 different factual tasks on the real subset, written as Parquet: {seconds:.1f} CPU"
            f" s; {said}"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
