"""Converts JSON configuration files of the reference code to recipes.

`taskloom make babi/mix.json` uses such a file directly, and `python -m
taskloom.suites.babi.reference_config mix.json > mix.yaml` writes the recipe. Every filter of a
sub-task becomes a group. Settings that the reference code ignores are ignored here too. Its
accidental behaviour (surplus question weights that enable other types) is not reproduced. Settings
without an equivalent in our recipes are rejected by name. For a filter that no story can pass, the
reference code draws `max_fail` stories in vain and continues without it. Here its group is left
out, and the recipe's description says so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from taskloom.core.errors import RecipeError, TaskloomError, nearest
from taskloom.core.files import read_utf8
from taskloom.recipe.yaml_files import MOST_BYTES
from taskloom.suites.babi.generator.one_question import GroupExamples, VainGroupError
from taskloom.suites.babi.generator.story_setting import Setting
from taskloom.suites.babi.story.events import EVENTS
from taskloom.suites.babi.story.vocabulary import Vocabulary

ACTIONS = {
    "move": "MOVE",
    "grab": "GRAB",
    "drop": "DROP",
    "give": "GIVE",
    "coref": "COREF",
    "co_ref": "COREF",
    "conj": "CONJ",
    "compound": "COMPOUND",
    "negate": "NEGATE",
    "indef": "INDEF",
}
QUESTIONS = {
    "where_person": "where-P",
    "where_object": "where-O",
    "where_was_object": "where-was-O",
    "yes_no": "yes-no",
    "list": "list",
    "counting": "counting",
    "giving": "give-qs",
}
DEFAULT_ACTIONS = {
    **dict.fromkeys(("move", "grab", "drop", "give", "coref"), 1.0),
    **dict.fromkeys(("conj", "compound"), 0.5),
    **dict.fromkeys(("negate", "indef"), 1.0),
}
"""Default actions of a configuration, which are all of them."""
FALLOFF = 0.35
"""Ratio between the frequencies of successive support sizes in stories that are simulated and
filtered, as in the reference code.
"""
FREE_SHARE = 0.5
"""Number of unfiltered questions per question that a filter counts: an exhaustive story has two
yes-no questions about a person and one where-P question. The reference code's own diverse(T12) has
0.52 and 0.26.
"""
_STORY = {
    "samples", "seed", "name", "n_questions", "question_probability", "actions_before_question",
    "max_actions", "questions", "questions_distribution", "actions", "actions_distribution",
    "coref", "coref_distribution", "move", "grab", "drop", "give", "negate",
    "coreference_prefixes", "negate_distribution", "entity_coreference_map", "exhaustive",
    "extra_exh_yes_no",
}  # fmt: skip
_FILTER = {
    "valid_q_types", "num_supp_fact_range", "required_supp_fact_types", "max_len", "max_pass",
    "max_fail", "max_stories_per_sig", "always_pass_q_types", "min_paths", "max_paths",
    "filter_each_q", "remove_distractors",
}  # fmt: skip
_ROOT = {
    "name", "tasks", "out_dir", "write_tt", "write_dec", "no_write", "only_dev", "combine_files",
    "just_combine", "save_separate", "use_new_engine",
}  # fmt: skip
_TASK = {"story_params", "game_variables", "filter_config", "sw_config"}


def _known(data: Mapping[str, Any], names: set[str], where: str) -> None:
    for key in data:
        if key not in names:
            raise RecipeError(f"{where}: unknown key '{key}'; {nearest(key, names)}")


def _weights(
    names: list[str], given: list[float] | None, table: Mapping[str, str], where: str
) -> dict[str, float]:
    weights = list(given or [1.0] * len(names))
    if len(weights) < len(names):
        raise RecipeError(f"{where}: {len(names)} names but {len(weights)} weights")
    weighted: dict[str, float] = {}
    for name, weight in zip(names, weights, strict=False):
        if name not in table:
            raise RecipeError(f"{where}: unknown '{name}'; {nearest(name, table)}")
        weighted[table[name]] = float(weight)
    return weighted


def convert(config: Mapping[str, Any], where: str = "the configuration") -> dict[str, Any]:
    """Convert a configuration of the reference code to a recipe.

    Raises:
        RecipeError: If a key is unknown, or sub-tasks differ in words or names, which a recipe has
            only once.
    """
    _known(config, _ROOT, where)
    if not config.get("tasks"):
        raise RecipeError(f"{where}: has no tasks")
    groups: list[dict[str, Any]] = []
    words: dict[str, Any] = {}
    for i, task in enumerate(config["tasks"]):
        place = f"{where}, tasks.{i}"
        _known(task, _TASK, place)
        mine = _words(task, place)
        if groups and mine != words:
            raise RecipeError(
                f"{place}: the words differ from the previous sub-task's, but a recipe has only "
                "one vocabulary; import the sub-tasks separately"
            )
        words = mine
        groups += _groups(task, place)
    return {
        "suite": "babi",
        "describe": f"imported from {config.get('name', where)}",
        **words,
        "groups": groups,
        "splits": _splits(config, groups),
    }


def _splits(config: Mapping[str, Any], groups: list[dict[str, Any]]) -> dict[str, int]:
    total = sum(group["n"] for group in groups)
    if config.get("only_dev"):
        return {"mix": total}
    return {"train": total, "dev": total // 10, "test": total // 10}


def _words(task: Mapping[str, Any], where: str) -> dict[str, Any]:
    story, variables = task.get("story_params") or {}, task.get("game_variables") or {}
    _known(story, _STORY, f"{where}.story_params")
    _known(
        variables,
        {"persons", "objects", "locations", "can_grab", "can_move_to"},
        f"{where}.game_variables",
    )
    vocabulary: dict[str, Any] = {}
    for theirs, ours in (("persons", "persons"), ("objects", "objects"), ("locations", "places")):
        if variables.get(theirs):
            vocabulary[ours] = list(variables[theirs])
    if story.get("entity_coreference_map"):
        persons = vocabulary.get("persons", Vocabulary().persons)
        given = story["entity_coreference_map"]
        vocabulary["pronouns"] = {p: words[0] for p, words in given.items() if p in persons}
    style = {
        verb: list(story[verb]) for verb in ("move", "grab", "drop", "give") if story.get(verb)
    }
    if story.get("negate"):
        style["negations"] = list(story["negate"])
    if story.get("coreference_prefixes"):
        style["prefixes"] = list(story["coreference_prefixes"])
    return {
        **({"vocabulary": vocabulary} if vocabulary else {}),
        **({"style": style} if style else {}),
    }


def _groups(task: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    story = task.get("story_params") or {}
    base = _happening(story, where)
    given = story.get("questions") or list(QUESTIONS)
    base["questions"] = _weights(
        given, story.get("questions_distribution"), QUESTIONS, f"{where}.questions"
    )
    exhaustive = bool(story.get("exhaustive")) and not task.get("filter_config")
    if exhaustive:
        base["exhaustive"] = True
    many, gap = int(story.get("n_questions", 5)), int(story.get("actions_before_question", 2))
    if many > 1 and not exhaustive:
        base["story"] = {
            "questions": many,
            "gap": gap,
            "ask": float(story.get("question_probability", 0.5)),
        }
    else:
        base["length"] = gap
    filters = task.get("filter_config") or [{}]
    filters = filters if isinstance(filters, list) else [filters]
    name, samples = str(story.get("name", "task")), int(story.get("samples", 11_000))
    place = f"{where}.filter_config"
    groups: list[dict[str, Any]] = []
    for given in filters:
        group = _filtered(base, given, name, samples, len(filters), place)
        groups.append(group)
        if given.get("always_pass_q_types"):
            groups.append(_kept_freely(base, given, name, group["n"], place))
    return groups


def _kept_freely(
    base: Mapping[str, Any], given: Mapping[str, Any], name: str, counted: int, where: str
) -> dict[str, Any]:
    """Build a separate group for questions of accepted stories that no filter checks."""
    wanted = _weights(
        list(given["always_pass_q_types"]), None, QUESTIONS, f"{where}.always_pass_q_types"
    )
    return {**base, "name": f"{name}-free", "n": round(counted * FREE_SHARE), "questions": wanted}


def _happening(story: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the events and wording of a sub-task."""
    given, shares = story.get("actions"), story.get("actions_distribution")
    if not given:
        given, shares = list(DEFAULT_ACTIONS), shares or list(DEFAULT_ACTIONS.values())
    actions = _weights(given, shares or None, ACTIONS, f"{where}.actions")
    spoken = story.get("coref") or ["move", "grab", "drop"]
    coref = _weights(spoken, story.get("coref_distribution"), ACTIONS, f"{where}.coref")
    events = {name: weight for name, weight in actions.items() if name in EVENTS}
    wording = {name: weight for name, weight in actions.items() if name not in EVENTS}
    if "NEGATE" in wording:
        # In the reference code a single action covers both kinds, which are equally frequent by
        # default: where a person is not, and where they are.
        negative, affirmative = story.get("negate_distribution") or (0.5, 0.5)
        share = wording["NEGATE"] / (negative + affirmative)
        wording |= {"NEGATE": negative * share, "AFFIRM": affirmative * share}
    happening: dict[str, Any] = {"events": events, "wording": wording}
    if "COREF" in wording:
        happening["coref"] = coref
        for name in coref:
            # In the reference code, pronouns may be used for events that do not occur otherwise.
            # Weight 0 has this effect here.
            (events if name in EVENTS else wording).setdefault(name, 0.0)
    return happening


def _filtered(
    base: Mapping[str, Any],
    given: Mapping[str, Any],
    name: str,
    samples: int,
    many: int,
    where: str,
) -> dict[str, Any]:
    _check_filter(base, given, where)
    group: dict[str, Any] = {
        **base,
        "name": name,
        "n": min(samples, int(given.get("max_pass", -(-samples // many)))),
    }
    kept = [q for q in given.get("valid_q_types") or ["all"] if q != "all"]
    if kept:
        wanted = _weights(kept, None, QUESTIONS, f"{where}.valid_q_types")
        group["questions"] = {q: base["questions"].get(q, 1.0) for q in wanted}
    if given.get("num_supp_fact_range"):
        group |= _support(name, *given["num_supp_fact_range"])
    if {*group["questions"]} & {"list", "counting"}:
        group["cited"] = True
    if given.get("required_supp_fact_types"):
        required = _weights(
            list(given["required_supp_fact_types"]),
            None,
            ACTIONS,
            f"{where}.required_supp_fact_types",
        )
        group["composition"] = list(required)
    if given.get("max_stories_per_sig"):
        group["per_signature"] = int(given["max_stories_per_sig"])
    if given.get("min_paths") or given.get("max_paths"):
        low, high = int(given.get("min_paths") or 1), int(given.get("max_paths") or 999)
        group["alternatives"] = f"{low}..{high}"
    if given.get("remove_distractors"):
        group["distractors"] = 0
    if "length" in group and given.get("max_len"):
        group["length"] = min(group["length"], int(given["max_len"]))
    return group


def _check_filter(base: Mapping[str, Any], given: Mapping[str, Any], where: str) -> None:
    """Raise an error for a filter that has no equivalent field in a recipe."""
    _known(given, _FILTER, where)
    if given.get("always_pass_q_types") and "story" in base:
        raise RecipeError(
            f"{where}.always_pass_q_types: with several questions per story, all are filtered; "
            "leave it empty"
        )
    if given.get("filter_each_q") is False and "story" in base:
        raise RecipeError(
            f"{where}.filter_each_q: with several questions per story, all are filtered; set it "
            "to true"
        )


def _support(name: str, low: int, high: int) -> dict[str, Any]:
    """Return the fields for a range of support sizes. The group's name contains the sizes, too."""
    if low == high:
        return {"support": low, "name": f"{name}-{low}"}
    support = {"support": f"{low}..{high}", "name": f"{name}-{low}-{high}"}
    # A reversed range is rejected later, when the recipe is checked.
    return {**support, "falloff": FALLOFF} if low < high else support


def import_file(path: str | Path) -> dict[str, Any]:
    """Read a configuration file of the reference code as a recipe, and check it."""
    file = Path(path)
    if not file.is_file():
        raise RecipeError(f"there is no file {file}")
    try:
        config = json.loads(read_utf8(file, RecipeError, most=MOST_BYTES))
    except (json.JSONDecodeError, RecursionError) as error:
        raise RecipeError(f"{file} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise RecipeError(f"{file} must be an object with name and tasks")
    try:
        recipe = convert(config, str(file))
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise RecipeError(
            f"{file}: a value has the wrong type for the reference code's configuration ({error})"
        ) from error
    return _without_vain_groups(recipe, config, str(file))


def _without_vain_groups(
    recipe: Mapping[str, Any], config: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Leave out groups whose filter no story can pass, unless no group would remain."""
    from taskloom.recipe import check

    kept: list[dict[str, Any]] = []
    faults: dict[str, VainGroupError] = {}
    fields: Any = check(recipe, where, where).fields
    setting = Setting(
        fields.vocabulary.vocabulary(), fields.style.lexicon(), fields.reading, "babi"
    )
    for group, checked in zip(recipe["groups"], fields.groups, strict=True):
        try:
            if checked.story is None:
                GroupExamples(checked, setting)
            kept.append(group)
        except VainGroupError as error:
            faults[checked.name] = error
    if not kept:
        raise next(iter(faults.values()))
    describe = recipe["describe"]
    if faults:
        describe += f", without {', '.join(faults)}: no story has such a question"
    return {**recipe, "describe": describe, "groups": kept, "splits": _splits(config, kept)}


class _Plain(yaml.SafeDumper):
    """YAML dumper that repeats shared values instead of writing aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def main(arguments: list[str]) -> int:
    """Print a configuration file as a YAML recipe."""
    try:
        if len(arguments) != 1:
            raise TaskloomError(
                "usage: python -m taskloom.suites.babi.reference_config CONFIG.json"
            )
        print(yaml.dump(import_file(arguments[0]), Dumper=_Plain, sort_keys=False), end="")
    except TaskloomError as error:
        print(f"taskloom: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
