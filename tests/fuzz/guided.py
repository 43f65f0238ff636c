"""Coverage-guided fuzzing of the parsers, with atheris (libFuzzer for Python).

    pip install atheris
    python -m tests.fuzz.guided TARGET [--inputs 50000] [--seconds 600] [--corpus FOLDER]

Hypothesis draws inputs from a grammar and never learns from them. libFuzzer keeps every input that
reaches a new branch of the package and goes on from there, which finds what no grammar of ours thought
of. Most mutations keep the form of an input (`tests.fuzz.mutators`), since nearly all inputs with
mutated bytes end at the parser. The targets and their limits are those of `python -m tests.fuzz`, and a failure becomes the same
file in `tests/regressions`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["taskloom"]):
    from tests.fuzz import targets_texts
    from tests.fuzz.engine import REGRESSIONS, TARGETS, judge, prepare, write_failure
    from tests.fuzz.mutators import MUTATORS

SEEDS = {
    "expressions": targets_texts.EXPRESSIONS,
    "stories": targets_texts.SEEDS,
    "yaml": targets_texts.YAML_SEEDS,
    "zest-files": targets_texts.ZEST_SEEDS,
}
"""The targets whose inputs are texts, with the inputs to begin with."""


IN_FORM = 0.8
"""Share of mutations that keep the form of an input."""

MOST_KEPT = 500
"""Maximum number of accepted inputs that mutations begin with."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("target", choices=sorted(SEEDS))
    parser.add_argument("--inputs", type=int, default=50_000)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="where found inputs are kept; default: nowhere")
    given = parser.parse_args()
    target = TARGETS[given.target]
    counts: Counter[str] = Counter()
    known: set[str] = set()
    accepted = list(SEEDS[given.target])
    with tempfile.TemporaryDirectory(prefix="taskloom-guided-") as scratch:
        folder = Path(scratch) / "work"
        prepare(folder)
        corpus = given.corpus or Path(scratch) / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(SEEDS[given.target]):
            (corpus / f"seed-{number}").write_bytes(text.encode())
        target.warm()

        def feed(data: bytes) -> None:
            text = data.decode("utf-8", "replace")
            outcome = judge(target, text, folder)
            counts[outcome.verdict] += 1
            if outcome.verdict in ("accepted", "checked"):
                accepted.append(text)
                del accepted[:-MOST_KEPT]
            if outcome.failed and outcome.place not in known:
                known.add(outcome.place)
                path = write_failure(REGRESSIONS, target, text, outcome)
                print(f"{outcome.why[:150]} -> {path}", flush=True)
            if counts.total() >= given.inputs:
                # libFuzzer ends the process by itself, so that nothing after it would be printed.
                print(f"{given.target}: {counts.total():,} inputs {dict(counts)}", flush=True)

        def mutate(data: bytes, longest: int, seed: int) -> bytes:
            chance = random.Random(seed)
            if given.target not in MUTATORS or chance.random() >= IN_FORM:
                mutated: bytes = atheris.Mutate(data, longest)
                return mutated
            # libFuzzer also keeps inputs that were refused in a new way.
            text = chance.choice([chance.choice(accepted), data.decode("utf-8", "replace")])
            for _ in range(chance.randint(1, 4)):
                text = MUTATORS[given.target](text, chance)
            return text.encode("utf-8", "replace")[:longest]

        options = [
            f"-runs={given.inputs}",
            f"-max_total_time={given.seconds}",
            f"-seed={given.seed}",
            "-max_len=4096",
            "-rss_limit_mb=6000",
            # The engine has its own alarm.
            "-handle_alrm=0",
            "-timeout=0",
        ]
        atheris.Setup([sys.argv[0], *options, str(corpus)], feed, custom_mutator=mutate)
        atheris.Fuzz()
    return 1 if known else 0


if __name__ == "__main__":
    sys.exit(main())
