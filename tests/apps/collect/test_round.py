"""A whole round without a browser: tasks, approval, variants, passages, answers, adjudication,
export, import.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import taskloom as tl
from taskloom.apps.collect import annotation
from taskloom.apps.collect.annotation import (
    EnteredAnswer,
    Leases,
    adjudicate,
    gather_passages,
    next_item,
    save_answer,
)
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.errors import CollectError, ConflictError, ForbiddenError
from taskloom.apps.collect.export import (
    agreement_report,
    export,
    finished_tasks,
    recipe_name,
    task_leaks,
    yes_remarks,
)
from taskloom.apps.collect.records import CollectedTask, GivenAnswer, Item, Person
from taskloom.apps.collect.task_workflow import (
    Wording,
    offer_base,
    offer_triple,
    resubmit,
    review,
    split_of,
    submit_base,
    submit_variant,
)
from taskloom.apps.collect.undo import undo
from taskloom.cli.app import run as cli
from taskloom.data.verify import verify
from taskloom.experiments.execute import engines
from taskloom.experiments.execute.engines import HereEngine
from taskloom.suites.zest import evaluation
from taskloom.suites.zest.task_files import read_tasks, statistics
from tests.apps.collect.projects import (
    add_people,
    annotate_all,
    open_project,
    play_round,
    write_base_tasks,
    write_project,
)

Round = tuple[Collection, dict[str, Person]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Round:
    return play_round(tmp_path_factory.mktemp("round"))


@pytest.fixture
def fresh(tmp_path: Path) -> Round:
    c = open_project(tmp_path)
    return c, add_people(c)


def test_base_tasks_are_divided_forty_ten_fifty_and_variants_follow(played: Round) -> None:
    tasks = {t.id: t for t in played[0].store.each(CollectedTask)}
    bases = [t for t in tasks.values() if not t.bases]
    assert Counter(t.split for t in bases) == {"train": 4, "dev": 1, "test": 5}
    assert all(t.split == tasks[b].split for t in tasks.values() for b in t.bases)
    assert {t.variant for t in tasks.values()} == {
        "normal",
        "paraphrase",
        "target_semantics",
        "combination",
        "structure",
    }


def test_a_hundred_places_have_the_wanted_shares_in_no_fixed_order(played: Round) -> None:
    percent = played[0].file.splits
    splits = [split_of(slot, "gardens", percent, 0) for slot in range(100)]
    assert Counter(splits) == {"train": 40, "dev": 10, "test": 50}
    assert splits[:10] != splits[10:20]


def test_paraphrases_have_the_passages_of_their_base_task(played: Round) -> None:
    store = played[0].store
    paraphrase = next(t for t in store.each(CollectedTask) if t.variant == "paraphrase")
    places = [
        [(i.document, i.start, i.end) for i in store.each(Item, parent=id)]
        for id in (paraphrase.id, paraphrase.parent)
    ]
    assert places[0] == places[1]
    assert len(places[0]) == 4


def test_every_item_has_three_answers_of_three_people(played: Round) -> None:
    store = played[0].store
    for item in store.each(Item):
        assert item.answered == 3
        assert len({a.person for a in store.each(GivenAnswer, parent=item.id)}) == 3
        assert item.state in ("agreed", "decided")
    assert store.count(Item, stage="decided") > 0
    assert store.check() == []


def test_the_export_is_a_zest_dataset_that_every_command_reads(
    played: Round, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    c, _ = played
    folder = tmp_path / "release"
    release = export(c, folder)
    assert release.leaks == ()
    tasks = {
        name: read_tasks(folder / "zest" / f"{name}.jsonl") for name in ("train", "dev", "test")
    }
    assert sum(len(t) for t in tasks.values()) == 14
    # Table 2, counted here from the files alone.
    table = json.loads((folder / "statistics.json").read_text())
    for name, rows in tasks.items():
        contexts = [i.context for t in rows for i in t.instances]
        answers = [i.answer for t in rows for i in t.instances]
        assert table[name]["pairs"] == len(contexts) == 4 * len(rows)
        assert table[name]["passage_words"] == pytest.approx(
            sum(len(x.split()) for x in contexts) / len(contexts)
        )
        assert table[name]["na"] == pytest.approx(answers.count("n/a") / len(answers))
        assert table[name] == statistics(rows).to_dict()
    # The official evaluation accepts gold answers as predictions and finds nothing wrong.
    for name, rows in tasks.items():
        predictions = tmp_path / f"{name}.txt"
        predictions.write_text("".join(f"{i.answer}\n" for t in rows for i in t.instances))
        report = evaluation.score(folder / "zest" / f"{name}.jsonl", predictions, "official")
        assert report.overall["90"] == 1.0
        assert (
            cli(
                [
                    "score",
                    "zest",
                    "--gold",
                    str(folder / "zest" / f"{name}.jsonl"),
                    "--pred",
                    str(predictions),
                ]
            )
            == 0
        )
    data = tl.load(folder / "dataset")
    assert {name: len(data[name]) for name in data.splits} == {
        n: 4 * len(t) for n, t in tasks.items()
    }
    assert cli(["verify", str(folder / "dataset")]) == 0
    assert (
        verify(folder / "dataset").answers > 0
    )  # its files are seen from the release, wherever one stands
    assert cli(["make", str(folder / "recipe.yaml"), "-o", str(tmp_path / "again")]) == 0
    assert tl.load(tmp_path / "again").digest == data.digest
    unanswered = [
        json.loads(line)
        for line in (folder / "zest" / "test_unanswered.jsonl").read_text().splitlines()
    ]
    assert [set(row) for row in unanswered] == [{"id", "question", "examples"}] * len(tasks["test"])
    assert all(set(e) == {"context"} for row in unanswered for e in row["examples"])
    assert len((folder / "log.jsonl").read_text().splitlines()) == len(list(c.store.events()))
    with pytest.raises(CollectError, match="there already"):
        export(c, folder)
    monkeypatch.setattr(engines, "start", lambda name, **options: HereEngine())
    recipe = str(folder / "recipe.yaml")
    runs = tl.run(recipes=[recipe], learners=["majority"], seeds=1, store=tmp_path / "runs")
    assert len(runs) == 1


def test_people_are_scored_like_models(played: Round) -> None:
    report = agreement_report(played[0])
    rows = {row["name"]: row for row in report["human_performance"]}
    assert set(rows) == {
        "base",
        "paraphrase",
        "composition",
        "semantic flips",
        "output structure",
        "overall",
    }
    assert 0 < rows["overall"]["mean"] < 1
    assert set(report["alpha"]) == {"yes/no", "span", "structure"}
    assert 0 < report["alpha"]["yes/no"] < 1


def test_the_human_estimate_by_hand(fresh: Round) -> None:
    """Two of three agree on every item, so that each of the two is right against the others only
    where they settle.
    """
    c, people = fresh
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    for item in list(c.store.each(Item)):
        for name, choice in (("Ann", "yes"), ("Abe", "yes"), ("Ada", "no")):
            save_answer(c, people[name], item.id, EnteredAnswer(choice=choice), 1, 0)
    # Without Ada the others say yes: she scores 0. Without Ann, yes and no settle nothing and
    # nobody decided: no item is left.
    base, overall = agreement_report(c)["human_performance"]
    assert (base["tasks"], base["mean"], base["c90"]) == (1, 0.0, 0.0)
    assert overall["mean"] == 0.0


def test_a_question_needs_a_second_person(fresh: Round) -> None:
    c, people = fresh
    both = c.add_person(people["Olga"].id, "Both", ["writer", "reviewer"])
    task = submit_base(c, both, "t", "gardens", Wording("Are dogs allowed in this garden?")).task
    assert task is not None
    with pytest.raises(CollectError, match="a second person"):
        review(c, both, task.id, 1, "approve")
    with pytest.raises(CollectError, match="say why"):
        review(c, people["Rita"], task.id, 1, "return")
    with pytest.raises(ForbiddenError, match="for reviewers"):
        review(c, people["Wim"], task.id, 1, "approve")
    returned = review(c, people["Rita"], task.id, 1, "return", "too close to another")
    assert (returned.state, returned.reason) == ("returned", "too close to another")
    with pytest.raises(ConflictError, match="somebody else saved"):
        resubmit(c, both, task.id, 1, Wording("Are dogs or cats allowed in this garden?"))
    again = resubmit(c, both, task.id, 2, Wording("Are dogs or cats allowed in this garden?")).task
    assert again is not None
    assert review(c, people["Rita"], task.id, 3, "approve").state == "approved"
    with pytest.raises(ConflictError, match="approved by now"):
        resubmit(c, both, task.id, 4, Wording("Are cats allowed in this garden?"))


def test_a_form_that_is_sent_twice_makes_one_task(fresh: Round) -> None:
    c, people = fresh
    wording = Wording("Are dogs allowed in this garden?")
    first = submit_base(c, people["Wim"], "ticket", "gardens", wording)
    assert submit_base(c, people["Wim"], "ticket", "gardens", wording) == first
    assert c.store.count(CollectedTask) == 1
    with pytest.raises(ConflictError, match="submitted already"):
        submit_base(
            c, people["Wim"], "ticket", "gardens", Wording("Are cats allowed in this garden?")
        )


def test_warnings_stop_a_question_until_its_writer_is_sure(fresh: Round) -> None:
    c, people = fresh
    wording = Wording("What is grown in this garden?", "yes/no")
    submission = submit_base(c, people["Wim"], "t", "gardens", wording)
    assert submission.task is None
    assert [f.level for f in submission.findings] == ["warning"]
    assert (
        submit_base(
            c, people["Wim"], "t", "gardens", Wording(wording.question, "yes/no", sure=True)
        ).task
        is not None
    )


def test_offers_of_base_tasks_and_triples(fresh: Round) -> None:
    c, people = fresh
    assert offer_base(c, people["Wim"], "paraphrase", 0) is None
    assert offer_triple(c, people["Wim"], 0) == ()
    bases = write_base_tasks(c, people)
    offered = offer_base(c, people["Wim"], "paraphrase", 0)
    assert offered is not None
    assert offered.writer == people["Wanda"].id  # others' tasks first
    assert {offer_base(c, people["Wim"], "paraphrase", n) for n in range(10)} == set(bases)
    triples = [offer_triple(c, people["Wim"], n) for n in range(20)]
    assert all(
        len({t.id for t in three}) == 3 and len({t.split for t in three}) == 1 for three in triples
    )
    assert len(set(triples)) > 5
    train, test = (next(b for b in bases if b.split == s) for s in ("train", "test"))
    with pytest.raises(CollectError, match="one domain and one split"):
        submit_variant(
            c,
            people["Wim"],
            "x",
            "combination",
            [train.id, test.id],
            Wording("Is it in this garden?"),
        )
    with pytest.raises(CollectError, match="two questions"):
        submit_variant(
            c, people["Wim"], "x", "combination", [train.id], Wording("Is it in this garden?")
        )


def test_annotators_qualify_first(tmp_path: Path) -> None:
    items = [
        {
            "question": f"Is it open on day {n}?",
            "passage": "It is open on all days.",
            "answer": "yes",
        }
        for n in range(4)
    ]
    items.append(
        {
            "question": "Where is it?",
            "passage": "It is in Pell.",
            "format": "span",
            "answer": "in Pell",
        }
    )
    c = open_project(tmp_path, qualification={"share": 0.8, "items": items})
    people = add_people(c)
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    leases = Leases()
    for name, wrong in (("Ann", 1), ("Abe", 2)):
        for number in range(5):
            item = next_item(c, c.store.need(Person, people[name].id).value, leases)
            assert item is not None
            assert item.state == "qualification"
            answer = (
                EnteredAnswer(na=True)
                if number < wrong
                else EnteredAnswer(choice="yes", spans=((6, 13),))
            )
            save_answer(c, people[name], item.id, answer, 1.0, 0)
    ann, abe = (c.store.need(Person, people[n].id).value for n in ("Ann", "Abe"))
    assert (ann.qualified, abe.qualified) == ("passed", "failed")
    item = next_item(c, ann, leases)
    assert item is not None
    assert item.state == "open"
    with pytest.raises(CollectError, match="talk to the owner"):
        next_item(c, abe, leases)
    c.requalify(people["Olga"].id, abe.id)
    assert next_item(c, c.store.need(Person, abe.id).value, leases) is not None


def test_an_item_goes_to_no_more_people_than_wanted(fresh: Round) -> None:
    c, people = fresh
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    now = [0.0]
    leases = Leases(lambda: now[0])
    more = [c.add_person(people["Olga"].id, f"A{n}", ["annotator"]) for n in range(4)]
    first = [next_item(c, p, leases) for p in more]
    ids = [i.id for i in first if i]
    assert ids[0] == ids[1] == ids[2] != ids[3]
    assert next_item(c, more[0], leases) == first[0]  # a reload shows the same item
    now[0] = annotation.LEASE + 1
    assert next_item(c, more[3], leases) == first[0]  # whoever left it open has lost it


def test_the_same_answer_twice_is_saved_once_and_another_needs_the_version(fresh: Round) -> None:
    c, people = fresh
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    item = next(c.store.each(Item))
    save_answer(c, people["Ann"], item.id, EnteredAnswer(choice="yes"), 3, 0)
    events = len(list(c.store.events()))
    save_answer(c, people["Ann"], item.id, EnteredAnswer(choice="yes"), 9, 0)
    assert len(list(c.store.events())) == events
    with pytest.raises(ConflictError):
        save_answer(c, people["Ann"], item.id, EnteredAnswer(choice="no"), 3, 0)
    save_answer(c, people["Ann"], item.id, EnteredAnswer(choice="no"), 3, 1)
    assert [a.value for a in c.store.each(GivenAnswer)] == ["no"]
    assert c.store.need(Item, item.id).value.answered == 1


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -5.0])
def test_odd_times_are_bounded(fresh: Round, seconds: float) -> None:
    c, people = fresh
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    item = next(c.store.each(Item))
    answer = save_answer(c, people["Ann"], item.id, EnteredAnswer(choice="yes"), seconds, 0)
    assert 0 <= answer.seconds <= annotation.LONGEST_TIME


@pytest.mark.parametrize(
    ("spans", "problem"),
    [
        ((), "select the words"),
        (((5, 2),), "outside"),
        (((0, 10**9),), "outside"),
        (((0, 9), (5, 12)), "overlaps"),
    ],
)
def test_wrong_selections_are_refused(
    fresh: Round, spans: tuple[tuple[int, int], ...], problem: str
) -> None:
    c, people = fresh
    write_base_tasks(c, people, 2)
    gather_passages(c, people["Olga"].id)
    task = next(t for t in c.store.each(CollectedTask) if t.format == "span")
    item = next(c.store.each(Item, parent=task.id))
    with pytest.raises(CollectError, match=problem):
        save_answer(c, people["Ann"], item.id, EnteredAnswer(spans=spans), 1, 0)


def test_an_owner_takes_an_answer_back_although_others_answered_since(fresh: Round) -> None:
    c, people = fresh
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    item = next(c.store.each(Item))
    for name in ("Ann", "Abe", "Ada"):
        save_answer(c, people[name], item.id, EnteredAnswer(choice="yes"), 3, 0)
    assert c.store.need(Item, item.id).value.state == "agreed"
    first = next(e for e in c.store.events(oldest_first=True) if e.what == "answer")
    undo(c, people["Olga"].id, first.number)
    left = c.store.need(Item, item.id).value
    assert (left.answered, left.state) == (2, "open")
    with pytest.raises(ConflictError, match="undone already"):
        undo(c, people["Olga"].id, first.number)
    assert c.store.check() == []


def test_an_adjudicator_decides_only_what_others_answered(fresh: Round) -> None:
    c, people = fresh
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    item = next(c.store.each(Item))
    with pytest.raises(ConflictError, match="not ready"):
        adjudicate(c, people["Rita"], item.id, 1, EnteredAnswer(na=True))
    c.change_roles(people["Olga"].id, people["Ann"].id, ["annotator", "reviewer"], 1)
    ann = c.store.need(Person, people["Ann"].id).value
    for person, choice in ((ann, "yes"), (people["Abe"], "no"), (people["Ada"], "")):
        save_answer(c, person, item.id, EnteredAnswer(na=not choice, choice=choice), 3, 0)
    assert c.store.need(Item, item.id).value.state == "disputed"
    with pytest.raises(CollectError, match="somebody else must decide"):
        adjudicate(c, ann, item.id, 4, EnteredAnswer(choice="no"))
    assert adjudicate(c, people["Rita"], item.id, 4, EnteredAnswer(choice="no")).answer == "no"
    with pytest.raises(ConflictError):
        save_answer(c, ann, item.id, EnteredAnswer(choice="no"), 3, 1)


def test_a_task_in_two_splits_is_a_leak(played: Round) -> None:
    finished, _ = finished_tasks(played[0])
    assert task_leaks(finished) == []
    moved = next(f for f in finished["test"] if f.task.bases)
    leaks = task_leaks(
        {"train": [moved], "test": [f for f in finished["test"] if f is not moved] + [moved]}
    )
    assert len(leaks) == 1 + len(moved.task.bases)


def test_a_split_that_nearly_always_says_yes_is_remarked(played: Round) -> None:
    finished, _ = finished_tasks(played[0])
    task = next(f for f in finished["test"] if f.task.format == "yes/no")
    items = tuple(
        replace(task.items[0], answer="no" if n == 0 else "n/a" if n == 1 else "yes")
        for n in range(12)
    )
    assert yes_remarks({"test": [replace(task, items=items)]}) == [
        "test: 91% of the yes/no answers are yes; write questions that are often answered by no"
    ]
    assert yes_remarks({"test": [replace(task, items=items[:8])]}) == []


def test_the_project_opens_again_as_it_was(played: Round) -> None:
    c, _ = played
    events = len(list(c.store.events()))
    again = Collection(c.folder)
    assert len(list(again.store.events())) == events
    assert annotate_all(again, {p.name: p for p in again.people()}) == 0
    again.close()


def test_two_exports_have_the_same_bytes_and_no_temporary_name(
    played: Round, tmp_path: Path
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        export(played[0], folder)
    one, two = (
        {str(p.relative_to(f)): p.read_bytes() for p in f.rglob("*") if p.is_file()}
        for f in folders
    )
    assert one == two
    assert not [name for name, content in one.items() if b".tmp" in content]
    assert tl.load(tmp_path / "one" / "dataset").manifest["recipe"]["name"] == recipe_name(
        played[0].file.name
    )


def test_nothing_to_export_is_said(fresh: Round, tmp_path: Path) -> None:
    with pytest.raises(CollectError, match="nothing can be exported yet"):
        export(fresh[0], tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"annotatorz": 3}, "unknown key 'annotatorz'; did you mean 'annotators'"),
        ({"annotators": 0}, "annotators: should be greater than or equal to 1, not 0"),
        ({"splits": {"train": 50, "dev": 10, "test": 50}}, "must add up to 100, not 110"),
        ({"domains": [{"name": "x", "entity": "park", "documents": "d"}]}, "begins with 'this'"),
        (
            {"domains": [{"name": "x", "entity": "this park", "documents": "nowhere"}]},
            "no file or folder",
        ),
    ],
)
def test_a_mistake_in_the_project_file_is_one_sentence(
    tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    write_project(tmp_path, **changes)
    with pytest.raises(CollectError, match=problem):
        Collection(tmp_path)


def test_people_need_names_and_roles_and_an_owner_stays(fresh: Round) -> None:
    c, people = fresh
    owner = people["Olga"].id
    for name, roles, problem in [
        ("", ["writer"], "1 to 60"),
        ("wim", ["writer"], "called 'wim' already"),
        ("New", [], "at least one role"),
        ("New", ["boss"], "no role 'boss'"),
    ]:
        with pytest.raises(CollectError, match=problem):
            c.add_person(owner, name, roles)
    with pytest.raises(CollectError, match="last owner"):
        c.change_roles(owner, owner, ["writer"], 1)
