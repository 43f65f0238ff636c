"""Datasets: what was made, what a verification and an audit found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from taskloom.cli.output import cell, console, counted, emit, percent, printable, table

if TYPE_CHECKING:
    from taskloom.data import Dataset
    from taskloom.data.audit import Audit
    from taskloom.data.audit.scorer_audit import ScorerAudit
    from taskloom.data.verify import Verification


def make_result(data: Dataset, folder: Path, as_json: bool, known: bool = False) -> None:
    """Print the end of `taskloom make`; `known` where the dataset was there before."""
    m = data.manifest
    if as_json:
        splits = {n: {"n": e["n"], "role": e["role"], "digest": e["digest"]} for n, e in m["splits"].items()}
        emit(
            {
                "folder": str(folder),
                "digest": data.digest,
                "recipe_digest": m["recipe_digest"],
                "seed": m["seed"],
                "splits": splits,
                "warnings": m["warnings"],
                "left_out": m["left_out"],
            }
        )
        return
    out = console()
    rows = [(name, e["n"], e["role"], e["describe"]) for name, e in m["splits"].items()]
    out.print(table(f"{m['recipe']['name']}, seed {m['seed']}", ("split", "examples", "role", "what"), rows))
    for warning in m["warnings"]:
        out.print(f"note: {cell(warning)}")
    out.print(f"\n{'was already in' if known else 'in'} {cell(folder)}", soft_wrap=True)
    out.print(
        f"content digest {data.digest} (of the rows), recipe digest {m['recipe_digest']} (of the fields)",
        soft_wrap=True,
    )


def exported(entry: dict[str, Any], sentence: str, as_json: bool) -> None:
    """Print the end of `taskloom export`."""
    if as_json:
        emit(entry)
    else:
        print(printable(sentence))


def verification(result: Verification, folder: Path, as_json: bool) -> None:
    """Print the result of `taskloom verify`."""
    if as_json:
        emit({"folder": str(folder), "ok": not result.wrong, **result.to_dict()})
        return
    print(f"{folder}: {result.rows:,} rows have the bytes of the manifest (content digest {result.digest})")
    if result.unchecked:
        print(f"no answer was derived again: --{result.unchecked}")
        return
    print(f"{result.answers:,} answers derived again by {result.method}: {len(result.wrong)} differ")
    for wrong in result.wrong[:10]:
        print(f"  {wrong.split} {wrong.index}: {wrong.input!r} has {list(wrong.stored)}, solved {list(wrong.solved)}")


def certificate(audit: Audit, as_json: bool) -> None:
    """Print the certificate of `taskloom audit`."""
    if as_json:
        emit(audit.to_dict())
        return
    out = console()
    print(f"audit of {printable(audit.name)} {f'(content digest {audit.digest})' if audit.digest else ''}\n")
    for section in (_splits, _overlaps, _pairs, _constants, _held_out, _shortcuts, _coverage, _divergence):
        block = section(audit)
        if block is not None:
            out.print(block, "")
    for note in audit.notes:
        print(f"note: {printable(note)}")
    trained = any(info["role"] == "train" for info in audit.splits.values())
    leaks = counted(len(audit.leaks), "leak") if trained else "leaks were not looked for"
    if audit.pairs:
        leaks += f", {counted(len(audit.pairs), 'split')} with pairs of training"
    if audit.held_out:
        leaks += f", {counted(len(audit.misplaced), 'split')} with misplaced held-out examples"
    print(f"{leaks}, {counted(sum(r.exact for r in audit.repeats), 'duplicate')}, {audit.shortcut_count}")


def _splits(audit: Audit) -> Table:
    repeats = {r.split: r for r in audit.repeats}
    balance = {b.split: b for b in audit.balance}
    rows = []
    for split, info in audit.splits.items():
        r, b = repeats[split], balance.get(split)
        spread = (b.answers, percent(b.majority), f"{b.evenness:.3f}") if b else ("-", "-", "-")
        rows.append((split, info["role"], info["n"], r.exact, r.near, r.contradictions, *spread))
    heads = ("split", "role", "examples", "duplicates", "near", "contradictions", "answers", "majority", "evenness")
    return table("splits: duplicates within, balance of the answers", heads, rows)


def _overlaps(audit: Audit) -> Table | None:
    rows = []
    for o in audit.overlaps:
        verdict = "LEAK" if o.leak else "by design" if o.by_design else "note"
        rows.append((o.split, o.other, o.exact, o.near, percent(o.share), verdict, "; ".join(o.examples[:1])[:60]))
    heads = ("rows of", "also in", "exact", "near", "share", "verdict", "for example")
    return table("overlaps between splits", heads, rows) if rows else None


def _pairs(audit: Audit) -> Table | None:
    rows = [
        (p.split, p.same, p.reversed, percent(p.share), "LEAK", "; ".join(p.examples[:1])[:60]) for p in audit.pairs
    ]
    heads = ("rows of", "same pair", "reversed", "share", "verdict", "for example")
    return (
        table("pairs of an input and an answer that training has, or has the other way round", heads, rows)
        if rows
        else None
    )


def _constants(audit: Audit) -> Table | None:
    rows = [(c.split, c.task, c.like, c.n) for c in audit.constants]
    heads = ("split", "task that training lacks", "training has", "rows")
    return table("tasks that equal a training task but for a constant", heads, rows) if rows else None


def _held_out(audit: Audit) -> Table | None:
    rows = [(c.split, c.n, c.held_out, c.expected, "right" if c.right else "MISPLACED") for c in audit.held_out]
    heads = ("split", "examples", "held out", "should be", "verdict")
    return table("held-out examples: all of ood, none elsewhere", heads, rows) if rows else None


def _shortcuts(audit: Audit) -> Table | None:
    names = list(dict.fromkeys(s.baseline for s in audit.shortcuts))
    score = {(s.split, s.baseline): percent(s.accuracy) + (" SHORTCUT" if s.flagged else "") for s in audit.shortcuts}
    splits = dict.fromkeys(s.split for s in audit.shortcuts)
    rows = [(split, *(score[split, b] for b in names)) for split in splits]
    return table("shortcuts: accuracy without doing the task", ("split", *names), rows) if rows else None


def _coverage(audit: Audit) -> Table | None:
    rows = [
        (c.split, c.trait, c.values, c.unseen_values, percent(c.unseen_rows), ", ".join(c.examples[:3]))
        for c in audit.coverage
        if c.unseen_values
    ]
    heads = ("split", "trait", "values", "not in training", "rows", "for example")
    return table("coverage: traits that training lacks", heads, rows) if rows else None


def _divergence(audit: Audit) -> Table | None:
    rows = [(d.split, f"{d.atoms:.3f}", f"{d.compounds:.3f}", percent(d.unseen_compounds)) for d in audit.divergence]
    heads = ("split", "atoms", "compounds", "compounds not in training")
    return table("divergence from training: 0 equal, 1 disjoint", heads, rows) if rows else None


def scorer_table(scorers: list[ScorerAudit], as_json: bool) -> None:
    """Print the rates of `taskloom audit scorers`."""
    if as_json:
        emit([one.to_dict() for one in scorers])
        return
    rows = []
    for one in scorers:
        missed = [f"{count.form} {percent(count.missed)}" for count in one.forms if count.missed > 0]
        rates = [percent(rate) for pair in (one.false_negatives, one.false_positives) for rate in pair]
        rows.append((one.scorer, one.answers, *rates, "; ".join(missed)))
    heads = ("scorer", "answers", "refused", "extracted", "accepted", "extracted", "judged wrongly after extraction")
    title = "right answers refused and wrong ones accepted: as they stand, and extracted"
    out = console()
    out.print(table(f"{title} by '{scorers[0].extract}'", heads, rows))
    out.print(
        "refused: right answers that got less than the full score, in forms in which models write them (capitals, an article,\n"
        "a sentence around the answer); accepted: wrong answers that got it. extracted: the same after the answer was cut out\n"
        "of the reply, as runs do. The forms: docs/reference/scorers.md."
    )
