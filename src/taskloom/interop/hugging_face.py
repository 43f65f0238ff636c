"""A dataset as a folder that `datasets.load_dataset` reads and a hub shows: Parquet files, a card,
the audit's certificate, and `eval.yaml`, by which Inspect evaluates models from a hub.

Rows are copied file by file, so a dataset need not fit into memory. If a dataset has several tasks,
each is a separate configuration.

The card answers the questions of a datasheet, as listed in appendix B of Dyna-bAbI, from the
manifest and the audit if a program can know the answer. The rest is marked for the author.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from taskloom.core.descriptions import Describer
from taskloom.core.errors import DataError, TaskloomError
from taskloom.core.extraction import chat_prompt
from taskloom.core.files import atomic_folder, path_of
from taskloom.core.registry import SUITES
from taskloom.core.tables import slur_pattern
from taskloom.data.audit import Audit, audit
from taskloom.data.dataset import Dataset, load, split_names

AUDIT, MANIFEST, RECIPE = "audit.json", "taskloom-manifest.json", "recipe.yaml"
EVALUATION = "eval.yaml"
SMALL = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)
"""Names of the hub's size categories."""


MOST_AUDITED = 2_000_000
"""Maximum rows to audit, because the audit keeps all texts in memory."""

MOST_CONFIGS = 500
"""Maximum tasks with separate configurations."""

LONGEST_CONFIG = 100
"""Maximum characters of a configuration's name, which is also a folder name."""


def export_hf(
    data: Dataset | str | PathLike[str],
    out: str | PathLike[str],
    *,
    licence: str | None = None,
    authors: Sequence[str] = (),
    task: str | PathLike[str] | None = None,
) -> Path:
    """Write a dataset as a folder for `datasets.load_dataset(folder)`, offline or from a hub.

    Args:
        data: The dataset, or its folder.
        out: The new folder, written completely or not at all.
        licence: An SPDX name for the card. None is assumed; data made from sources with their own
            licences get `other`, with the sources by name.
        authors: Names for the card's citation.
        task: The Python file of the dataset's task, which is copied into the folder and not run.
    """
    data = data if isinstance(data, Dataset) else load(path_of(data))
    folder = path_of(out)
    if folder.exists():
        raise DataError(f"{folder} exists already; name a folder that does not")
    rows = sum(entry["n"] for entry in data.manifest["splits"].values())
    certificate = audit(data) if rows <= MOST_AUDITED else None
    names = split_names(data.splits)
    describer = _describer(data)
    configs = config_names(data)
    splits: dict[str, list[str]] = {config: [] for config in ("default", *configs.values())}
    with atomic_folder(folder) as beside:
        for split in data.splits:
            parts = (_with_columns(part, describer) for part in data.parts(split) if len(part))
            for config in _write_split(parts, names[split], beside / "data", configs):
                splits[config].append(names[split])
        source = path_of(task) if task is not None else None
        code = source.name if source else ""
        if source is not None:
            shutil.copyfile(source, beside / source.name)
        if "seed" in data.manifest:
            recipe = recipe_text(data.manifest["recipe"], code)
            (beside / RECIPE).write_text(recipe, encoding="utf-8")
        _write_json(beside / MANIFEST, dict(data.manifest))
        if certificate is not None:
            _write_json(beside / AUDIT, certificate.to_dict())
        evaluation = hub_evaluation(data, describer, splits)
        if evaluation is not None:
            text = yaml.safe_dump(evaluation, sort_keys=False, allow_unicode=True)
            (beside / EVALUATION).write_text(text, encoding="utf-8")
        text = card(data, certificate, licence, splits, authors, code)
        (beside / "README.md").write_text(text, encoding="utf-8")
    return folder


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def config_names(data: Dataset) -> dict[str, str]:
    """The configuration of each task; empty if there is one task, or if there are too many."""
    tasks: set[str] = set()
    for split in data.splits:
        for part in data.parts(split):
            if "task" in part.column_names:
                tasks.update(pc.unique(part["task"]).drop_null().to_pylist())
            if len(tasks) > MOST_CONFIGS:
                return {}
    names = {task: re.sub(r"[^A-Za-z0-9.-]+", "_", task).strip("_.-") for task in sorted(tasks)}
    distinct = {name.lower() for name in names.values()} - {"", "default"}
    usable = len(distinct) == len(names) and all(len(n) <= LONGEST_CONFIG for n in distinct)
    return names if usable and len(names) > 1 else {}


def _write_split(
    parts: Iterable[pa.Table], name: str, folder: Path, configs: Mapping[str, str]
) -> list[str]:
    """Write the files of a split, and return the configurations with rows of it."""
    found: dict[str, None] = {}
    for number, part in enumerate(parts):
        file = f"{name}-{number:05}.parquet"
        found["default"] = None
        if not configs:
            _write_rows(part, folder / file)
            continue
        for task in pc.unique(part["task"]).to_pylist():
            rows = part.filter(pc.equal(part["task"], task))
            _write_rows(rows, folder / configs[task] / file)
            found[configs[task]] = None
    return list(found)


def _describer(data: Dataset) -> Describer | None:
    """Descriptions of the tasks; None if the code of the recipe is not known."""
    if "seed" not in data.manifest:
        return None
    try:
        return Describer(data.recipe.plan(data.manifest["seed"]), "instruction")
    except TaskloomError:
        return None


def _write_rows(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(None), path, compression="zstd")


def _with_columns(table: pa.Table, describer: Describer | None) -> pa.Table:
    """Add the description, and the official answer as a text, because many tools do not accept
    lists.
    """
    after = table.column_names.index("targets") + 1
    added = {"target": pc.list_element(table["targets"], 0)}
    if describer is not None:
        added["description"] = describer.descriptions(table)
    for name, column in added.items():
        if name not in table.column_names:
            table = table.add_column(after, name, column)
            after += 1
    return table


INSPECT_SCORERS = {"exact": False, "any-of": True}
"""Scorers that Inspect's `pattern` can replace if every example has one answer, by whether they
ignore case.
"""

ANSWER_LINE = r"(?s:.*)(?i:answer)[*_]*\s*:[*_\s]*(?:- )?([^\n]*?)[*_.\s]*\Z"
"""Pattern of the answer at the end of a reply, in the format that prompts ask for."""


def hub_evaluation(
    data: Dataset, describer: Describer | None, splits: Mapping[str, Sequence[str]]
) -> dict[str, Any] | None:
    """The content of `eval.yaml`, which `inspect eval hf/OWNER/NAME` reads.

    A hub runs only Inspect's own scorers. None if no such scorer can judge the answers.

    Args:
        data: The dataset.
        describer: Descriptions of its tasks.
        splits: The splits of every configuration.
    """
    names = split_names(data.splits)
    tested = {names[name]: name for name in data.splits if data.role(name) == "test"}
    scorer = str(data.manifest.get("scorer", ""))
    has_one_answer = all(
        pc.all(pc.equal(pc.list_value_length(part["targets"]), 1)).as_py()
        for split in tested.values()
        for part in data.parts(split)
    )
    if describer is None or scorer not in INSPECT_SCORERS or not has_one_answer:
        return None
    fields = {"input": "input", "target": "target", "metadata": ["description"]}
    template = chat_prompt("{prompt}" if data.recipe.described else "{description}\n{prompt}")
    arguments = {"pattern": ANSWER_LINE, "ignore_case": INSPECT_SCORERS[scorer]}
    in_configs = [(config, split) for config, filled in splits.items() for split in filled]
    tasks = [
        {
            "id": f"{config}-{split}",
            "config": config,
            "split": split,
            "field_spec": fields,
            "solvers": [
                {"name": "prompt_template", "args": {"template": template}},
                {"name": "generate"},
            ],
            "scorers": [{"name": "pattern", "args": arguments}],
        }
        for config, split in in_configs
        if split in tested
    ]
    recipe = data.manifest["recipe"]
    about = {"name": str(recipe.get("name", "")), "description": str(recipe.get("describe", ""))}
    return {**about, "evaluation_framework": "inspect-ai", "tasks": tasks} if tasks else None


def recipe_text(recipe: Mapping[str, Any], code: str = "") -> str:
    """Build the recipe file of a manifest, with the values of all fields after any overrides.

    The name is omitted, because the file's path replaces it. The version and the digests of code
    are omitted, because only datasets have them. `code` is the name of the task's Python file in
    the same folder.
    """
    keys = {key: value for key, value in recipe.items() if key not in ("name", "version", "code")}
    if code and "task" in keys:
        keys = {"extends": f"{code}::{keys.pop('task')}", **keys}
    return yaml.safe_dump(keys, sort_keys=False, allow_unicode=True)


def card(
    data: Dataset,
    certificate: Audit | None,
    licence: str | None = None,
    splits: Mapping[str, Sequence[str]] | None = None,
    authors: Sequence[str] = (),
    code: str = "",
) -> str:
    """Build the dataset card: metadata for the hub, and a text on what the data are and how they
    were made. `code` is the name of the task's Python file in the folder.
    """
    manifest, names = data.manifest, split_names(data.splits)
    full = [name for name in data.splits if manifest["splits"][name]["n"]]
    rows = sum(manifest["splits"][name]["n"] for name in full)
    sources = manifest.get("sources", {})
    recipe = manifest["recipe"]
    splits = splits or {"default": [names[name] for name in full]}
    licence = licence or ("other" if sources else "")
    languages = _languages(manifest)
    head = {
        **({"license": licence} if licence else {}),
        **(
            {"license_name": "see-sources", "license_link": "README.md"}
            if licence == "other"
            else {}
        ),
        **({"language": languages} if languages else {}),
        "task_categories": ["question-answering", "text-generation"],
        "pretty_name": str(recipe.get("task") or recipe.get("name", "dataset")),
        "size_categories": [next((size for most, size in SMALL if rows < most), "n>10M")],
        "tags": ["synthetic", "taskloom", "compositional-generalization"],
        "configs": [
            {"config_name": config, "data_files": _data_files(config, filled, len(splits) > 1)}
            for config, filled in splits.items()
        ],
    }
    parts = [
        "---\n" + yaml.safe_dump(head, sort_keys=False, allow_unicode=True) + "---",
        f"# {head['pretty_name']}",
        str(manifest["recipe"].get("describe") or manifest.get("describe", "")),
        _splits(manifest, names),
        _columns(next(data.parts(full[0]))) if full else "",
        _making(manifest, sources, code),
        _certificate(certificate),
        _citation(str(head["pretty_name"]), authors, manifest),
        datasheet(data, certificate, licence, authors),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _data_files(config: str, splits: Sequence[str], by_task: bool) -> list[dict[str, str]]:
    """The files of a configuration in the format of a card."""
    folder = "data/"
    if by_task:
        folder += "*/" if config == "default" else f"{config}/"
    return [{"split": split, "path": f"{folder}{split}-*.parquet"} for split in splits]


def _citation(title: str, authors: Sequence[str], manifest: Mapping[str, Any]) -> str:
    """BibTeX of the dataset; empty if no author is named."""
    if not authors:
        return ""
    key = re.sub(r"\W+", "-", title).strip("-")
    fields = {
        "author": " and ".join(authors),
        "title": f"{{{title}}}",
        "note": f"Dataset made with Taskloom, content digest {manifest['digest']}",
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join(["## Citation", "", "```bibtex", f"@misc{{{key},", *lines, "}", "```"])


LANGUAGES = {
    "ara": "ar", "cat": "ca", "dan": "da", "deu": "de", "ell": "el", "eng": "en", "eus": "eu",
    "fin": "fi", "fra": "fr", "glg": "gl", "heb": "he", "hrv": "hr", "ind": "id", "ita": "it",
    "jpn": "ja", "lit": "lt", "nld": "nl", "nno": "nn", "nob": "nb", "pol": "pl", "por": "pt",
    "ron": "ro", "slk": "sk", "slv": "sl", "spa": "es", "swe": "sv", "tha": "th", "zho": "zh",
}  # fmt: skip
"""The hub's two-letter language codes by ISO 639-3 code."""

_BRACKETS = re.compile(r"\[([a-z]{3}(?:\s*,\s*[a-z]{3})*)\]")


def _languages(manifest: Mapping[str, Any]) -> list[str]:
    """The languages that a recipe names, such as `synonyms[spa]`. If it names none, English for
    recipes of Taskloom's suites and nothing for other data, whose language is not known.
    """
    recipe = json.dumps(manifest["recipe"])
    codes = re.findall(r"[a-z]{3}", " ".join(_BRACKETS.findall(recipe)))
    named = sorted({LANGUAGES[code] for code in codes if code in LANGUAGES})
    own = "seed" in manifest and not _code(manifest["recipe"])
    return named or (["en"] if own else [])


def _splits(manifest: Mapping[str, Any], names: Mapping[str, str]) -> str:
    rows = ["| split | examples | role | what |", "| --- | --- | --- | --- |"]
    for name, entry in manifest["splits"].items():
        rows.append(
            f"| {names[name]} | {entry['n']:,} | {entry['role']} | {entry.get('describe', '')} |"
        )
    return "\n".join(rows)


def _columns(table: pa.Table) -> str:
    traits = (
        [field.name for field in table.schema.field("traits").type]
        if "traits" in table.column_names
        else []
    )
    return "\n".join(
        [
            "## Columns",
            "",
            (
                "- `input`: what a model sees; `targets`: every acceptable answer, the official one"
                " first; `target`: the official one."
            ),
            (
                "- `question`: the part of the input that asks; `key`: what decides the split; null"
                " where they are the input."
            ),
            (
                "- `derivation`: how the answer comes about, step by step. `task`: the name of the"
                " task; `description`: an instruction for models that were not trained on it."
            ),
            f"- `traits`: what analyses group by: {', '.join(f'`{t}`' for t in traits) or 'none'}.",
        ]
    )


def _making(manifest: Mapping[str, Any], sources: Mapping[str, str], code: str) -> str:
    lines = ["## How it was made", ""]
    if "seed" not in manifest:
        return "\n".join([*lines, "By somebody else than Taskloom, which wrote this card."])
    recipe, version = manifest["recipe"], manifest.get("versions", {}).get("taskloom", "")
    lines += [
        (
            f"`taskloom make {RECIPE} --seed {manifest['seed']} -o DIR`, with `{RECIPE}` of this"
            f" folder and Taskloom {version}. It is `{recipe.get('name')}` with all of its"
            f" fields{_code(recipe, code)}; the manifest is `{MANIFEST}`."
        ),
        (
            f"Scorer: `{manifest.get('scorer', '')}`. Content digest: `{manifest['digest']}`; equal"
            " digests, equal rows."
        ),
    ]
    if sources:
        lines += ["", "Made from these sources, which have licences of their own:", ""]
        lines += [f"- {source}, digest `{digest}`" for source, digest in sources.items()]
    return "\n".join(lines)


def _code(recipe: Mapping[str, Any], file: str = "") -> str:
    """The card's note on code that is not part of Taskloom. No file is imported for it. `file` is
    the name of the code's copy in the folder.
    """
    suite = SUITES.find(str(recipe["suite"])) if "suite" in recipe else None
    if suite is not None and suite.module.split(".")[0] == "taskloom" and not recipe.get("code"):
        return ""
    needed = (
        f", and needs the Python code that defines `{recipe.get('task') or recipe.get('suite')}`"
    )
    return f"{needed}, `{file}` of this folder" if file else needed


def _certificate(certificate: Audit | None) -> str:
    if certificate is None:
        return f"## Audit\n\nNot audited, because there are more than {MOST_AUDITED:,} rows."
    duplicates = sum(r.exact for r in certificate.repeats)
    shortcuts = [s for s in certificate.shortcuts if s.flagged]
    rows = f"{duplicates:,} rows repeat an earlier row of their split"
    repeated = rows if duplicates else "no row repeats an earlier one of its split"
    verdict = "**failed**" if certificate.failed else "passed"
    lines = [
        "## Audit",
        "",
        (
            f"`taskloom audit`: {verdict}. {len(certificate.leaks)} leaks between training and test"
            f" splits, {len(certificate.pairs)} splits with misplaced held-out examples,"
            f" {certificate.shortcut_count}; {repeated}. *Passed* means: no leak, no misplaced"
            f" example. Shortcuts and duplicates do not fail an audit. All of it is in `{AUDIT}`."
        ),
        "",
    ]
    lines += [
        f"- {s.baseline} reaches {s.accuracy:.1%} on `{s.split}` without doing the task"
        for s in shortcuts
    ]
    lines += [f"- {note}" for note in certificate.notes]
    return "\n".join(lines).rstrip()


BLANK = "**[author]**"
"""Placeholder for answers that only the author can give."""

Answers = dict[str, str]


def datasheet(
    data: Dataset, certificate: Audit | None, licence: str, authors: Sequence[str] = ()
) -> str:
    """The datasheet of a dataset as a part of its card.

    Args:
        data: The dataset.
        certificate: Its audit; None if there is none.
        licence: SPDX name of its licence; empty if it is not known.
        authors: Who created it; empty if it is not known.
    """
    sections = {
        "Motivation": {
            "For what purpose was it created?": BLANK,
            "Who created it?": f"{', '.join(authors)}." if authors else BLANK,
            "Who funded it?": BLANK,
        },
        "Composition": _composition(data, certificate),
        "Collection and preprocessing": _collection(data.manifest),
        "Uses": _uses(certificate),
        "Distribution": _distribution(data.manifest, licence),
        "Maintenance": _maintenance(data.manifest),
    }
    lines = [
        "## Datasheet",
        "",
        f"Answered from the manifest and the audit; {BLANK} marks what only its author knows.",
    ]
    for title, answers in sections.items():
        lines += ["", f"### {title}", ""]
        lines += [f"- *{question}* {answer}" for question, answer in answers.items()]
    return "\n".join(lines)


def _composition(data: Dataset, certificate: Audit | None) -> Answers:
    manifest = data.manifest
    splits = manifest["splits"]
    rows = sum(entry["n"] for entry in splits.values())
    roles = ", ".join(f"{name} ({entry['role']})" for name, entry in splits.items())
    left_out = "; ".join(f"{what}: {why}" for what, why in manifest.get("left_out", {}).items())
    # Only data made by a recipe are known to be a sample of what the recipe can make.
    sample = BLANK
    missing = BLANK
    if "seed" in manifest:
        sample = f"What the recipe gives for seed {manifest['seed']}; other seeds give other data."
        missing = f"Left out: {left_out}." if left_out else "The recipe left nothing out."
    sources = ", ".join(manifest.get("sources", {}))
    contained = "The rows need no other resource."
    if sources:
        contained += f" They were made from {sources}."
    errors = f"Not audited. {BLANK}"
    if certificate is not None:
        duplicates = sum(repeats.exact for repeats in certificate.repeats)
        errors = f"{duplicates:,} duplicates, {len(certificate.leaks)} leaks."
    warnings = " ".join(manifest.get("warnings", ()))
    return {
        "What do instances represent?": str(
            manifest["recipe"].get("describe") or manifest.get("describe") or BLANK
        ),
        "How many are there?": f"{rows:,}.",
        "All possible instances, or a sample?": sample,
        "What does each consist of?": "Text; see the columns.",
        "Is there a label?": "Yes: `targets`, every acceptable answer, the official one first.",
        "Is information missing?": missing,
        "Are there recommended splits?": f"{roles}.",
        "Are there errors, noise or redundancies?": f"{errors} {warnings}".rstrip(),
        "Is it self-contained?": contained,
        "Might it offend?": (
            f"{_rows_with_slurs(data):,} rows have a word of Taskloom's list of slurs, which is"
            f" mostly English. Otherwise: {BLANK}"
        ),
        "Does it relate to people?": BLANK,
    }


def _rows_with_slurs(data: Dataset) -> int:
    """Number of rows with a slur in the input or in an answer."""
    found = 0
    for table in (part for split in data.splits for part in data.parts(split)):
        answers = pc.binary_join(table["targets"], "\n")
        has = [
            pc.match_substring_regex(column, slur_pattern(), ignore_case=True)
            for column in (table["input"], answers)
        ]
        found += pc.sum(pc.or_(*has)).as_py() or 0
    return found


def _collection(manifest: Mapping[str, Any]) -> Answers:
    acquired = sampling = processed = raw = software = BLANK
    if "seed" in manifest:
        version = manifest.get("versions", {}).get("taskloom", "")
        acquired = "Generated by a program; `taskloom verify` computes the answers anew."
        sampling = f"Pseudo-random draws from seed {manifest['seed']}, as the recipe says."
        processed = "None after generation."
        if manifest.get("sources"):
            processed += f" Of the sources: {BLANK}"
        raw = "Recipe and seed make the data again."
        software = f"Taskloom {version}."
    return {
        "How was the data acquired?": acquired,
        "What was the sampling strategy?": sampling,
        "Was it preprocessed, cleaned or labelled?": processed,
        "Was the raw data saved?": raw,
        "Is the software available?": software,
    }


def _uses(certificate: Audit | None) -> Answers:
    affects = BLANK
    if certificate is not None:
        affects = f"The audit found {certificate.shortcut_count}. Otherwise: {BLANK}"
    return {
        "Has it been used already?": BLANK,
        "Is there a list of papers that use it?": BLANK,
        "What else could it be used for?": BLANK,
        "Does its composition affect future uses?": affects,
        "What should it not be used for?": BLANK,
    }


def _distribution(manifest: Mapping[str, Any], licence: str) -> Answers:
    third = "The recipe names no source with a licence of its own."
    if "seed" not in manifest:
        third = BLANK
    if sources := ", ".join(manifest.get("sources", {})):
        third = f"The licences of {sources} hold."
    return {
        "Will it be given to third parties?": BLANK,
        "How, and has it a DOI?": f"As this folder of Parquet files. DOI: {BLANK}",
        "When?": BLANK,
        "Under which licence?": f"`{licence}`." if licence else BLANK,
        "Do third parties restrict it?": third,
        "Do export controls apply?": BLANK,
    }


def _maintenance(manifest: Mapping[str, Any]) -> Answers:
    versions = extension = BLANK
    if "seed" in manifest:
        versions = f"A version is its digest, `{manifest['digest']}`. Hosting: {BLANK}"
        extension = "Change the recipe and make the data again."
    return {
        "Who maintains it?": BLANK,
        "How can they be reached?": BLANK,
        "Is there an erratum?": BLANK,
        "Will it be updated?": BLANK,
        "Are there limits on retention?": BLANK,
        "Are older versions kept?": versions,
        "How can others extend it?": extension,
    }
