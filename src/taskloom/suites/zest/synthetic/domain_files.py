"""Domain files: YAML, read into the dataclasses of `domain.py` and checked.

Each part is first checked on its own, then the whole domain (`problems`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from taskloom.core.errors import RecipeError, TaskloomError, nearest
from taskloom.core.files import digest
from taskloom.core.seeding import Random
from taskloom.recipe.yaml_files import load
from taskloom.suites.zest.synthetic.algebra import expression, program_text
from taskloom.suites.zest.synthetic.domain import (
    Attribute,
    Domain,
    Feature,
    Field,
    Flag,
    Measure,
    Members,
    Number,
    Quality,
    Records,
    Rule,
    Text,
    full_name,
)
from taskloom.suites.zest.synthetic.flip_groups import groups
from taskloom.suites.zest.synthetic.passage_reader import Pattern, grammar
from taskloom.suites.zest.synthetic.programs import Program, wordings
from taskloom.suites.zest.synthetic.second_solver import parse_program
from taskloom.suites.zest.task_files import CLASSIFICATION_WORDS, EXTRACTION_WORDS, first_word

FOLDER = Path(__file__).parents[1] / "domains"
"""Folder of the domains shipped with this package."""

LARGEST = 1_000_000
"""Maximum size of a domain file in bytes. The largest file in this package has 20,000."""

MOST_VALUES = 100_000
"""Maximum number of values in a domain file. A few nested aliases could expand to more values than
fit into memory.
"""

TYPES: dict[str, type] = {
    "number": Number,
    "text": Text,
    "members": Members,
    "flag": Flag,
    "measure": Measure,
    "quality": Quality,
    "feature": Feature,
}
"""Types that the key `type` of a file can select: four kinds of attributes, and three kinds of
fields of records.
"""

_LISTS: dict[str, type] = {"records": Records, "rules": Rule}

UNKNOWN_KEY = "unexpected_keyword_argument"
"""Pydantic's error type for an unknown key of a dataclass."""


def read_domain(path: Path) -> Domain:
    """Read a domain file and check all its parts. Nothing named in the file is imported or
    executed.

    Args:
        path: Path of the file.

    Raises:
        RecipeError: If the file has a problem. The error names the file and the key of the first
            problem.
    """
    if path.stat().st_size > LARGEST:
        raise RecipeError(
            f"{path} has more than {LARGEST:,} bytes; a domain file is a few hundred lines"
        )
    given = load(path, RecipeError)
    if _is_huge(given):
        raise RecipeError(
            f"{path} has more than {MOST_VALUES:,} values, counting every use of an alias; write "
            "fewer"
        )
    if not isinstance(given, dict):
        raise RecipeError(
            f"{path} must be a mapping with the keys of a domain: name, noun, attributes, "
            "records, …"
        )
    try:
        return _reader().validate_python(_with_text_keys(given))
    except ValidationError as error:
        raise RecipeError(f"{path}: {_explain(error, given)}") from error


@cache
def _reader() -> TypeAdapter[Domain]:
    return TypeAdapter(Domain)


def _is_huge(given: Any) -> bool:
    """True if a file has too many values, counting each use of an alias. Counting stops at the
    limit.
    """
    waiting, count = [given], 0
    while waiting and count <= MOST_VALUES:
        value = waiting.pop()
        inner: Any = ()
        if isinstance(value, dict):
            inner = value.values()
        elif isinstance(value, list):
            inner = value
        count += 1 + len(inner)
        if count <= MOST_VALUES:
            waiting.extend(inner)
    return count > MOST_VALUES


def _with_text_keys(given: Any) -> Any:
    """Convert the keys of a file's mappings to texts, because YAML reads an unquoted `yes` as true,
    even as a key.
    """
    if isinstance(given, list):
        return [_with_text_keys(item) for item in given]
    if not isinstance(given, dict):
        return given
    spelled = {True: "yes", False: "no"}
    return {spelled.get(key, str(key)): _with_text_keys(value) for key, value in given.items()}


def _explain(error: ValidationError, given: Any) -> str:
    """Describe the first problem in one sentence, with the number of further ones. A misspelt key
    is reported before a missing one.
    """
    problems = sorted(error.errors(), key=lambda problem: problem["type"] != UNKNOWN_KEY)
    problem, path = problems[0], problems[0]["loc"]
    if problem["type"] == UNKNOWN_KEY:
        place, part = _place(path[:-1], given)
        text = f"unknown key '{path[-1]}'; {nearest(str(path[-1]), _keys(part))}"
    else:
        place, _ = _place(path, given)
        text = _fault(problem)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{place}: {text}{more}" if place else f"{text}{more}"


def _fault(problem: ErrorDetails) -> str:
    """Describe what is wrong with one value."""
    kind, value = problem["type"], problem["input"]
    if kind == "missing":
        return "this key is missing"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        of_records = "fields" in problem["loc"]
        known = [name for name, part in TYPES.items() if ("column" in _keys(part)) == of_records]
        return f"type must be one of {', '.join(known)}"
    if kind == "dataclass_type":
        return f"must be a valid dictionary, not {value!r:.60}"
    text = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if kind == "value_error":
        return text
    # YAML reads an unquoted `no` or `1911` as a boolean or a number.
    unquoted = kind == "string_type" and isinstance(value, bool | int | float)
    remedy = "; put it in quotes" if unquoted else ""
    return f"{text}, not {value!r:.60}{remedy}"


def _place(path: tuple[int | str, ...], given: Any) -> tuple[str, type]:
    """Return the path of a value with names in place of indices, such as `attributes.height.says`,
    and the type of the part that contains it.
    """
    part: type = Domain
    words = []
    for step in path:
        if step in TYPES:  # pydantic names the type that it tried
            part = TYPES[str(step)]
            continue
        try:
            given = given[step]
        except (KeyError, IndexError, TypeError):
            given = None
        named = given.get("name") if isinstance(given, dict) else None
        words.append(str(step) if named is None else str(named))
        if isinstance(given, list):
            part = _LISTS.get(str(step), part)
    return ".".join(words), part


def _keys(part: type) -> list[str]:
    return [field.name for field in fields(part)]


# Registry of domains: built-in ones by name, a user's own by the path of its file.

SUFFIXES = (".yaml", ".yml")


@cache
def domain_names() -> tuple[str, ...]:
    """List the domains of this package."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


_LOADED: dict[str, tuple[str, Domain, Path]] = {}
"""Domains loaded from files that recipes name by path, each with a digest of its file. The reader
finds them here by name.
"""


def is_file_name(name: str) -> bool:
    """True if an entry of a recipe's `domains` names a file, not a domain of this package."""
    return name.endswith(SUFFIXES)


def find_domain(name: str, path: Path | None = None) -> Domain:
    """Return the domain with that name, or the one in that file. `path` is the location of the
    file, if it differs from the name.
    """
    if is_file_name(name):
        return load_domain(path or Path(name))[1]
    if name in _LOADED:
        return _LOADED[name][1]
    if name not in domain_names():
        own = "to use your own, write the path of its file, ./castles.yaml"
        if name.endswith(".py"):
            own = "a domain file is YAML"
        raise RecipeError(f"there is no domain '{name}'; {nearest(name, domain_names())}; {own}")
    return _packaged(name)


@cache
def _packaged(name: str) -> Domain:
    return read_domain(FOLDER / f"{name}.yaml")


def load_domain(path: Path) -> tuple[str, Domain]:
    """Read and check a domain file. Returns the digest of its bytes and the domain."""
    if not path.is_file():
        raise RecipeError(f"there is no domain file {path} (relative to the folder {Path.cwd()})")
    content = digest(path.read_bytes())
    for known, domain, _place in _LOADED.values():
        if known == content:
            return known, domain
    domain = read_domain(path)
    place = path.resolve()
    # The same file may have been edited and loaded again, for example in a notebook.
    elsewhere = domain.name in _LOADED and _LOADED[domain.name][2] != place
    if elsewhere or domain.name in domain_names():
        raise RecipeError(f"{path}: another domain is already named '{domain.name}'; rename yours")
    faults = problems(domain)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise RecipeError(f"{path}: {faults[0]}{more}")
    _LOADED[domain.name] = content, domain, place
    return content, domain


# Checks of a whole domain: clauses with two meanings, questions with two meanings, kin that is not
# mutual

LEAST_NAMES = 9
"""Minimum number of first parts of names. Three entities may each have three records of one kind,
all with different first parts.
"""


def problems(domain: Domain) -> list[str]:
    """List all problems of a domain, one sentence each. Empty if the domain can be used."""
    # The reader's grammar requires that all names are defined.
    basic = [
        *_names(domain),
        *_slots(domain),
        *_records(domain),
        *_rules(domain),
        *_attributes(domain),
    ]
    return basic or [*_clauses(domain), *_questions(domain)]


def _names(domain: Domain) -> Iterator[str]:
    for owner, heads in (("domain", domain.heads), *((r.name, r.heads) for r in domain.records)):
        if len(set(heads)) < LEAST_NAMES:
            yield (
                f"'{owner}' has fewer than {LEAST_NAMES} heads, but passages need a different one "
                "for each name"
            )
    for name in _repeated([a.name for a in domain.attributes] + [r.name for r in domain.records]):
        yield f"two attributes or records are called '{name}'"
    if domain.short in {r.one for r in domain.records}:
        yield f"'the {domain.short}' could mean the entity or a record: choose another short"
    for text in domain.fillers:
        if not text.endswith("."):
            yield f"the filler {text!r} is not a sentence, because it has no full stop"
        if ". " in text:
            yield f"the filler {text!r} has several sentences: make each a separate filler"


_SLOT = re.compile(r"\[(?:\d+\.\.\d+|[^\[\]|]+(?:\|[^\[\]|]+)+)\]")
"""A well-formed slot: [10..90], or two or more alternatives [two|three]."""


def _slots(domain: Domain) -> Iterator[str]:
    for kind, texts in (
        ("opening", domain.opens),
        ("filler", domain.fillers),
        ("opener", domain.openers),
        ("closer", domain.closers),
    ):
        for text in texts:
            plain = _SLOT.sub("", text)
            if any(mark in plain for mark in "[]|"):
                yield (
                    f"the {kind} {text!r} has a bracket that is not of the form [two|three] or"
                    " [10..90]"
                )
    for text in domain.closers:
        if not text.startswith(","):
            yield f"the closer {text!r} does not begin with a comma"


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _records(domain: Domain) -> Iterator[str]:
    for records in domain.records:
        for name in _repeated([f.name for f in records.fields]):
            yield f"records '{records.name}': two fields are called '{name}'"
        for f in records.fields:
            for key, opposite in (("more", "less"), ("most", "least"), ("being", "not_being")):
                if hasattr(f, opposite) and len(getattr(f, key)) != len(getattr(f, opposite)):
                    yield (
                        f"'{f.name}' needs the same number of phrases for {key} as for "
                        f"{opposite}, because flips use them in pairs"
                    )
        for name in _repeated([records.column, *(f.column for f in records.fields)]):
            yield f"records '{records.name}': two columns are called '{name}'"
    for one, other in zip(domain.records[::2], domain.records[1::2], strict=False):
        if len(one.asks) != len(other.asks):
            yield (
                f"'{one.name}' and '{other.name}' need the same number of questions, because "
                "flips use them in pairs"
            )


def _rules(domain: Domain) -> Iterator[str]:
    for rule in domain.rules:
        when, then = domain.by_name.get(rule.when), domain.by_name.get(rule.then)
        for name in (rule.when, rule.then):
            if name not in domain.by_name:
                yield f"a rule is about '{name}', which is not an attribute"
        if when is None or then is None:
            continue
        title = f"rule from '{rule.when}' to '{rule.then}'"
        if not isinstance(when, Text) or isinstance(then, Members) or when is then:
            yield (
                f"{title}: a rule must lead from a text to another attribute, which is not of "
                "type members"
            )
        for key in ("affirms", "denies") if isinstance(then, Flag) else ("says",):
            if not getattr(rule, key):
                yield f"{title}: {key} is empty, and '{rule.then}' needs it"


def _attributes(domain: Domain) -> Iterator[str]:
    for a in domain.attributes:
        if a.kin and (a.kin not in domain.by_name or domain.by_name[a.kin].kin != a.name):
            yield f"'{a.name}' names '{a.kin}' as its kin, but not the other way round"
        elif a.kin and type(domain.by_name[a.kin]) is not type(a):
            yield f"'{a.name}' and its kin '{a.kin}' are of different types"
        elif a.kin and len(a.asks) != len(domain.by_name[a.kin].asks):
            yield (
                f"'{a.name}' and its kin '{a.kin}' need the same number of questions, because "
                "flips use them in pairs"
            )
        if isinstance(a, Number) and len(a.more) != len(a.less):
            yield (
                f"'{a.name}' has {len(a.more)} questions for more and {len(a.less)} for less, but "
                "flips use them in pairs"
            )


def _clauses(domain: Domain) -> Iterator[str]:
    patterns, _ = grammar(domain)
    for clause in clauses(domain):
        meanings = _meanings(clause, patterns)
        if len(meanings) == 1:
            continue
        what = "nothing"
        if meanings:
            what = "both " + " and ".join(" ".join(meaning) for meaning in sorted(meanings))
        yield f"the reader understands the clause {clause!r} as {what}"
    for filler in sorted({variant for text in domain.fillers for variant in _variants(text)}):
        if _meanings(filler.removesuffix("."), patterns):
            yield f"the filler {filler!r} states a fact"


def _variants(filler: str) -> Iterator[str]:
    """Yield sentences of a filler that together contain every alternative: the first of each slot,
    the second of each, and so on.
    """
    choices = [re.split(r"\||\.\.", choice) for choice in re.findall(r"\[([^\]]*)\]", filler)]
    for turn in range(max(map(len, choices), default=1)):
        # Slots with fewer alternatives start again, so that every sentence has all its slots
        # filled.
        picks = iter([choice[turn % len(choice)] for choice in choices])
        yield re.sub(r"\[[^\]]*\]", lambda _, picks=picks: next(picks), filler)  # type: ignore[misc]


def _meanings(clause: str, patterns: Iterable[Pattern]) -> set[tuple[str, ...]]:
    lowered = clause[0].lower() + clause[1:]
    near = (p for p in patterns if p.anchor in lowered)
    return {p.states for p in near if p.regex.fullmatch(clause) or p.regex.fullmatch(lowered)}


def clauses(domain: Domain) -> Iterator[str]:
    """Yield every clause of a domain with each of its values. For numbers, only the smallest value
    is used.
    """
    name = domain.named(full_name(domain.heads[0], domain.tails[0]))
    for template in domain.opens:
        yield from _variants(template.replace("{E}", name))
    for part in domain.attributes:
        for template, value in _statements(part):
            yield template.replace("{E}", name).replace("{V}", value)
    for records in domain.records:
        yield from _record_clauses(records, name)
    for rule in domain.rules:
        yield from _rule_clauses(domain, rule)


def _record_clauses(records: Records, owner: str) -> Iterator[str]:
    name = full_name(records.heads[0], records.tails[0])
    for template in records.says:
        yield template.replace("{E}", owner).replace("{N}", name)
    for field in records.fields:
        for template, value in _statements(field):
            yield template.replace("{N}", name).replace("{V}", value)


def _rule_clauses(domain: Domain, rule: Rule) -> Iterator[str]:
    outcome = _values(domain.by_name[rule.then])[0]
    templates = (*rule.affirms, *rule.denies, *rule.says)
    for template, value in product(templates, _values(domain.by_name[rule.when])):
        yield template.replace("{V}", value).replace("{W}", outcome)


def _statements(part: Attribute | Field) -> Iterator[tuple[str, str]]:
    if isinstance(part, Flag | Feature):
        templates = part.affirms + part.denies
    else:
        templates = part.says + part.denies if isinstance(part, Members) else part.says
    return product(templates, _values(part))


def _values(part: Attribute | Field) -> tuple[str, ...]:
    if isinstance(part, Number | Measure):
        return (part.text(part.low),)
    return ("",) if isinstance(part, Flag | Feature) else part.values


def _questions(domain: Domain) -> Iterator[str]:
    faults: set[str] = set()
    programs: dict[str, Program] = {}
    for group in groups(domain, Random(0)):
        for program in group.programs:
            faults.update(_unreadable(domain, program))
            known = CLASSIFICATION_WORDS if program.yes_no else EXTRACTION_WORDS
            questions = wordings(domain, program)
            if len(set(questions)) < 2:
                faults.add(
                    f"the task {program_text(program)} has fewer than two wordings, so it cannot "
                    "have a paraphrase"
                )
            for question in questions:
                first = programs.setdefault(question, program)
                if first != program:
                    faults.add(
                        f"the question {question!r} asks for {program_text(first)} and for"
                        f" {program_text(program)}"
                    )
                if first_word(question) not in known:
                    faults.add(
                        f"the question {question!r} must begin with a word that identifies its "
                        f"type, such as {sorted(known)[:3]}"
                    )
    yield from sorted(faults)


def _unreadable(domain: Domain, program: Program) -> Iterator[str]:
    """Yield a problem if a program is not equal after formatting and parsing, because a name is an
    operator or a value contains reserved characters.
    """
    try:
        same = parse_program(domain, program_text(program)) == expression(program)
    except TaskloomError:
        same = False
    if not same:
        yield (
            f"the task {program_text(program)} cannot be written in the function language: choose "
            "other names or values"
        )
