"""`make demo`: a small dataset of every suite, a small model trained on CTL++ on the CPU, and one page that shows both."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import taskloom as tl
from taskloom.audits import Audit
from taskloom.dataset import Dataset
from taskloom.errors import MissingExtra, TaskloomError
from taskloom.experiments.statistics import wilson
from taskloom.reports import page, plots

SMALL_A = (
    "symbols=4",
    "functions=12",
    "max_length=4",
    "splits={train: {n: 6000}, iid: {n: 500}, ood: {n: 500}}",
    "fill=0.8",
)
"""4 symbols, two groups of six functions, chains of up to four: a bi-LSTM learns it in 20 CPU-seconds."""

SMALL_S = (
    "symbols=4",
    "functions=18",
    "overlap=2",
    "shared_symbols=2",
    "max_length=4",
    "splits={train: {n: 3000}, iid: {n: 300}, ood: {n: 500}}",
    "fill=0.8",
)
"""Two paths that share two functions on two symbols each: the hard corner of the paper's figure 4."""

DATASETS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ctl/A", SMALL_A),
    ("ctl/R", SMALL_A),
    ("ctl/S", SMALL_S),
    ("ctl/length", ("splits={train: {n: 20000}, iid: {n: 500}, ood: {n: 500}}",)),
    ("babi/2", ("splits={train: {n: 1000}, test: {n: 200}}",)),
    ("babi/mix-T2", ()),
    ("taskbench/english", ()),
    ("zest/synthetic", ()),
)
TRAINED = ("ctl/A", "ctl/S")
STEPS, EVERY = 1_000, 50


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and name the page it wrote."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"))
    parser.add_argument("--steps", type=int, default=STEPS, help="training steps of each model")
    args = parser.parse_args(arguments)
    try:
        path = demo(args.out, args.steps)
    except TaskloomError as error:
        print(f"taskloom: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("taskloom: interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    print(f"\nThe report: {path.resolve()}")
    return 0


def demo(out: Path, steps: int = STEPS) -> Path:
    """Make the datasets, audit them, train, and write the page."""
    began = time.monotonic()
    made: dict[str, Dataset] = {}
    audits: dict[str, Audit] = {}
    for name, changes in DATASETS:
        _say(f"making {name}")
        made[name] = tl.make(name, out / name.replace("/", "-"), set=changes)
        audits[name] = tl.audit(made[name])
    sections = [_datasets(made), _examples(made), _audits(audits)]
    panels, rows = _train(made, out, steps)
    sections.insert(0, _learning(panels, rows))
    minutes = (time.monotonic() - began) / 60
    lead = f"Made by `make demo` with Taskloom {tl.__version__} in {minutes:.1f} minutes; all numbers were measured in that run."
    return page.write(out / "report.html", "What a small model learned from CTL++", lead, sections)


def _say(text: str) -> None:
    print(text, flush=True)


def _train(
    made: dict[str, Dataset], out: Path, steps: int
) -> tuple[dict[str, list[plots.Curve]], list[tuple[str, ...]]]:
    try:
        import torch

        from taskloom.learners import LEARNERS, Progress
        from taskloom.learners.training.settings import Training
    except ImportError as error:
        raise MissingExtra("training", "torch", "scratch") from error
    # Matrices this small gain nothing from a second thread, and lose much when the machine is busy.
    torch.set_num_threads(1)
    how = Training(steps=steps, rate=3e-3, warmup=50, batch=128, evaluate_every=min(EVERY, steps), device="cpu")
    panels: dict[str, list[plots.Curve]] = {}
    rows: list[tuple[str, ...]] = []
    for name in TRAINED:
        data = made[name]

        def report(p: Progress, name: str = name) -> None:
            left = p.seconds / max(p.step, 1) * (p.steps - p.step)
            _say(f"training a bi-LSTM on {name}: step {p.step:,} of {p.steps:,}, about {left:.0f} s left")

        learner = LEARNERS.get("bilstm")(training=how, dropout=0.1, state=128)
        fitted = learner.fit(data["train"], {s: data[s] for s in ("iid", "ood")}, seed=0, progress=report)
        fitted.save(out / f"model-{name.replace('/', '-')}")
        points = fitted.curve
        panels[name] = [
            plots.Curve(
                s, tuple(p.step for p in points if p.split == s), tuple(p.score for p in points if p.split == s)
            )
            for s in ("train", "iid", "ood")
        ]
        rows += [(name, split, *_score(fitted.answer, data, split)) for split in ("iid", "ood")]
    return panels, rows


def _score(answer: Callable[[list[str]], list[str]], data: Dataset, split: str) -> tuple[str, str, str]:
    examples = list(data[split])
    answers = answer([e.input for e in examples])
    right = sum(tl.exact.score(a, e) for a, e in zip(answers, examples, strict=True))
    low, high = wilson(right, len(examples))
    return f"{right / len(examples):.3f}", f"{low:.3f} to {high:.3f}", f"{len(examples):,}"


def _learning(panels: dict[str, list[plots.Curve]], rows: list[tuple[str, ...]]) -> page.Section:
    text = (
        "iid is drawn like training but never in it; ood composes the same functions in ways that training never shows; the dotted "
        "line is guessing. In A two groups of functions alternate in training, and ood stays within one. In S two paths share two "
        "functions on two symbols each, and ood crosses the paths. The same network, as sure of itself on iid in both."
    )
    heads = ("recipe", "split", "accuracy", "95 % interval", "examples")
    return page.Section("Learning curves of a bi-LSTM", text, heads, tuple(rows), plots.curves(panels, 0.25))


def _datasets(made: dict[str, Dataset]) -> page.Section:
    rows = tuple(
        (name, ", ".join(f"{s} {d.manifest['splits'][s]['n']:,}" for s in d.splits), d.digest[:16])
        for name, d in made.items()
    )
    text = "The same command gives the same digests on every machine."
    return page.Section("Datasets", text, ("recipe", "examples", "content digest"), rows)


def _examples(made: dict[str, Dataset]) -> page.Section:
    blocks = []
    for name, data in made.items():
        split = next((s for s in data.splits if data.role(s) == "test"), data.splits[0])
        example = data[split][0] if data.manifest["splits"][split]["n"] else data[data.splits[0]][0]
        steps = ", ".join(f"{s.rule} → {s.value}" for s in example.derivation[:8])
        blocks.append(
            f"{name}, {split}\n\n{example.input[:900]}\n\n→ {example.target}" + (f"    ({steps})" if steps else "")
        )
    return page.Section("An example of each", blocks=tuple(blocks))


def _audits(audits: dict[str, Audit]) -> page.Section:
    rows = []
    for name, a in audits.items():
        best = max((s.accuracy for s in a.shortcuts), default=0.0)
        apart = next((f"{d.compounds:.2f}" for d in a.divergence if d.split == "ood"), "-")
        rows.append((name, len(a.leaks), sum(r.exact for r in a.repeats), f"{best:.2f}", apart))
    heads = ("recipe", "leaks", "duplicates", "best shortcut's accuracy", "compound divergence of ood")
    return page.Section("Audit", "What `taskloom audit` says of each dataset.", heads, tuple(rows))


if __name__ == "__main__":
    sys.exit(main())
