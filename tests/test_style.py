"""Names and prose, counted: one name for one thing, nouns for modules, docstrings that begin with a verb, no flags in errors."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.source_files import FILES, SOURCE, nodes_of, text_of

UNIFORM = {"__init__", "fields", "plan", "second_solver", "show", "descriptions", "rows", "export", "errors"}
"""The rooms that have the same name in every suite."""

ABSTRACT = {"scoring", "seeding", "sampling", "encoding"}
"""Modules named by the field's own nouns in -ing."""

SUITES = re.compile(r"\b(babi|zest|taskbench|ctl)\b")

VERB_FIRST = 0.85

VERBS = frozenset(
    re.findall(
        r"\w+",
        """
        Accept Add Adapt Allow Answer Append Apply Arrange Ask Assign Attach Begin Bind Break Bring Build
        Cache Call Certify Change Check Choose Claim Clear Close Collect Combine Compare Compile Complete Compose Compute
        Concatenate Connect Construct Convert Copy Correct Count Cover Create Cut Decide Declare Decode Define Delete Derive
        Describe Detect Determine Divide Download Draw Drop Embed Emit Encode End Ensure Enumerate Estimate Evaluate
        Exclude Execute Expand Explain Export Express Extend Extract Feed Fetch Fill Filter Find Finish Fit Flatten Fold
        Follow Forget Format Free Freeze Gather Generate Get Give Group Grow Guess Halve Handle Hash Hide Hold Ignore
        Import Include Infer Initialise Initialize Insert Interpret Interrupt Invert Iterate Join Judge Keep 
        Launch Learn Leave Let Lift List Load Locate Lock Log Look Lower Make Map Mark Mask Match Measure Meet Merge Move
        Multiply Name Normalise Normalize Note Offer Open Order Pack Pad Parse Pass Permute Pick Place Plan
        Plot Predict Prefer Prepare Print Produce Prompt Prove Publish Put Query Raise Rank Reach Read Rebuild
        Record Reduce Refuse Register Regroup Release Relate Remember Remove Rename Render Repeat Replace Report Request
        Require Rescore Reserve Reset Resolve Restore Resume Return Reverse Rewrite Round Run Sample Save Say Scale Score
        Search See Select Send Separate Serve Set Share Shift Show Shuffle Shut Sign Simplify Simulate Skip Sleep Slice
        Solve Sort Spell Split Spread Stack Start State Step Stop Store Stream Strip Subtract Sum Summarise Summarize
         Survey Sweep Switch Take Tally Tell Test Thin Tie Tokenise Tokenize Trace Track Train Transform
        Translate Transpose Try Turn Unbind Undo Unify Unpack Unroll Unstack Update Upload Use Validate Verify View Visit
        Wait Walk Warn Watch Weave Weigh Withhold Work Wrap Write Yield 
        """,
    )
)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in nodes_of(path) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def begins_with_a_verb(docstring: str) -> bool:
    word = re.match(r"[A-Za-z]+", docstring)
    if word is None:
        return False
    return word[0] in VERBS or any(word[0] == verb + ending for verb in VERBS for ending in ("s", "es"))


def test_module_names_are_unique_and_no_gerunds() -> None:
    names = Counter(path.stem for path in FILES if path.stem not in UNIFORM)
    assert [name for name, n in names.items() if n > 1] == []
    assert [str(p) for p in FILES if p.stem.endswith("ing") and p.stem not in ABSTRACT] == []


def test_class_names_are_unique() -> None:
    classes = Counter(node.name for path in FILES for node in nodes_of(path) if isinstance(node, ast.ClassDef))
    assert [name for name, n in classes.items() if n > 1] == []


def test_function_docstrings_begin_with_a_verb() -> None:
    docstrings = [d for path in FILES for f in functions(path) if (d := ast.get_docstring(f))]
    share = sum(map(begins_with_a_verb, docstrings)) / len(docstrings)
    assert share >= VERB_FIRST, f"only {share:.1%} of {len(docstrings)} begin with a verb"


def _texts(node: ast.AST) -> str:
    """Return all literal text of an expression."""
    return " ".join(n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))


TAKEN_OUT = r"'[^']*'|(pip install|ray start|python -m) .*"
"""Whole command lines that an error quotes as the remedy, of ours or of others."""


def test_library_errors_name_parameters_and_never_flags() -> None:
    found = []
    for path in FILES:
        if "cli" in path.relative_to(SOURCE).parts:
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Raise) and node.exc is not None:
                text = re.sub(TAKEN_OUT, "", _texts(node.exc))
                if re.search(r"(^|[\s(])--?[a-z]", text):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {text}")
    assert found == []


def _examples(path: Path) -> set[int]:
    """Return the numbers of the lines in docstrings that are examples: doctests, and what follows `Examples:`."""
    examples: set[int] = set()
    lines = text_of(path).splitlines()
    for node in nodes_of(path):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            continue
        if ast.get_docstring(node) is None or not isinstance(node.body[0], ast.Expr):
            continue
        place = node.body[0]
        inside = False
        for number in range(place.lineno, (place.end_lineno or place.lineno) + 1):
            line = lines[number - 1].strip()
            inside = inside or line in ("Examples:", "Example:") or line.startswith(">>>")
            if inside:
                examples.add(number)
    return examples


PAPERS = SOURCE / "learners" / "presets.py"
"""The settings of the four papers, by the papers' names, two of which are also names of suites."""

GENERIC = [p for p in FILES if p != PAPERS and not {"suites", "studies", "collect"} & set(p.relative_to(SOURCE).parts)]


def suites_named(path: Path) -> list[str]:
    """Return the lines of a module that name a suite, but for the examples in its docstrings."""
    if not SUITES.search(text_of(path)):
        return []
    examples, lines = _examples(path), enumerate(text_of(path).splitlines(), 1)
    return [f"{path}:{n}: {line.strip()}" for n, line in lines if SUITES.search(line) and n not in examples]


def test_no_generic_module_names_a_suite() -> None:
    """What a suite needs it brings along; only examples in docstrings may use a recipe's name."""
    assert len(GENERIC) > 100
    assert [line for path in GENERIC for line in suites_named(path)] == []
