"""Recipe fields of the story suite.

A recipe has groups. A group defines which events, constructs and questions its stories have, their
length and their depth of reasoning. Splits consist of groups, which are given in the split itself
or, for splits with a plain size, at the top of the recipe, where `n` is their proportion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, combinations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    create_model,
    field_validator,
    model_validator,
)

from taskloom.core.errors import RecipeError, nearest
from taskloom.core.files import LATER
from taskloom.recipe import Fields, Size, Span
from taskloom.recipe.fields import Choices, InputParts, draw, presentation, world
from taskloom.suites.babi.story.events import (
    AFFIRM,
    CONSTRUCTS,
    EVENT_TYPES,
    EVENTS,
    QUESTIONS,
    Event,
    EventType,
    Kind,
)
from taskloom.suites.babi.story.vocabulary import (
    DEFAULT_PRONOUNS,
    DYNA,
    StoryLexicon,
    Vocabulary,
    verb_lists,
)

CONCEPTS = (*EVENTS, *CONSTRUCTS, *QUESTIONS)
WORDINGS = (*CONSTRUCTS, AFFIRM)
STORY_CONCEPTS = (*EVENTS, *CONSTRUCTS)
"""Concepts that a supporting sentence can have: all except questions."""

SAID = {
    "MOVE": "goes somewhere",
    "GRAB": "takes a thing",
    "DROP": "puts it down",
    "GIVE": "gives it to somebody",
    "COREF": "“she”, “he”",
    "CONJ": "“Mary and John”",
    "COMPOUND": "“they”",
    "NEGATE": "“is not in”",
    "INDEF": "“either … or …”",
    "AFFIRM": "“is in”",
    "where-P": "Where is Mary?",
    "where-O": "Where is the milk?",
    "where-was-O": "Where was the milk before?",
    "yes-no": "Is Mary in the park?",
    "list": "What is Mary carrying?",
    "counting": "How many objects …?",
    "give-qs": "Who gave the milk to John?",
}
"""Explanation of each concept in forms. Events added by other packages have none."""


def said(names: Iterable[str]) -> Choices:
    """List names for a form, with their explanations."""
    return Choices(tuple((name, SAID.get(name, "")) for name in names))


Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Rule(Generic[Given]):
    """A combination of fields that is rejected.

    Attributes:
        broken: Returns True (or a non-empty value) if the fields break the rule.
        sentence: Error message, which begins with the field to change; `{given.length}` is filled
            in.
    """

    broken: Callable[[Given], object]
    sentence: str


def check_rules(given: Given, rules: Iterable[Rule[Given]]) -> None:
    """Reject fields with the error of the first rule that they break."""
    for rule in rules:
        if rule.broken(given):
            raise ValueError(rule.sentence.format(given=given))


def _number(value: Any) -> Any:
    """Convert a text such as `1e-1` to a number. Other values are returned unchanged."""
    if isinstance(value, str):
        with suppress(ValueError):
            return float(value)
    return value


YAML_WORDS = {True: "yes", False: "no"}
"""The words that YAML 1.1 reads as true and false."""


def _named_weights(value: Any) -> Any:
    """Convert a name or a list of names to names with weight 1. Other values are returned
    unchanged.
    """
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        return value
    if not all(isinstance(name, str | bool) for name in value):
        raise ValueError(f"expected a list of names or names with weights, not {value!r}")
    return dict.fromkeys(value, 1.0)


def _check_weight(name: object, weight: object, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"unknown '{name}'; {nearest(str(name), known)}")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1e9:
        raise ValueError(f"the weight of {name} must be a number of at least 0, not {weight!r}")


def _weights(known: tuple[str, ...]) -> BeforeValidator:
    def read(value: Any) -> Any:
        value = _named_weights(value)
        if not isinstance(value, dict):
            return value
        weights = {}
        for given, number in value.items():
            # Convert only true and false themselves. 1 and 0 are equal to them, but are not names.
            name = YAML_WORDS[given] if isinstance(given, bool) else given
            weights[name] = _number(number)  # YAML 1.1 reads 1e-1 as text
        for name, weight in weights.items():
            _check_weight(name, weight, known)
        return weights

    return BeforeValidator(read)


EventWeights = Annotated[dict[str, float], said(EVENTS), _weights(EVENTS)]
WordingWeights = Annotated[dict[str, float], said(WORDINGS), _weights(WORDINGS)]
STATEMENTS = (*EVENTS, "NEGATE", "INDEF", AFFIRM)
StatementWeights = Annotated[dict[str, float], said(STATEMENTS), _weights(STATEMENTS)]
QuestionWeights = Annotated[dict[str, float], said(QUESTIONS), _weights(QUESTIONS)]
YES_NO = ("yes", "no", "maybe")
AnswerWeights = Annotated[dict[str, float], said(YES_NO), _weights(YES_NO)]
Shares = Annotated[dict[str, Annotated[float, Field(ge=0, le=1)]], said(STORY_CONCEPTS)]
Concepts = Annotated[tuple[str, ...], said(STORY_CONCEPTS)]


MOST_WORDS = 1_000
"""Maximum number of persons, objects or places. The time to draw a sentence is proportional to
their number: 0.1 s per story with 20,000 persons.
"""


def _few(words: tuple[str, ...]) -> tuple[str, ...]:
    if len(words) > MOST_WORDS:
        raise ValueError(f"has {len(words):,} names, but at most {MOST_WORDS:,} are supported")
    return words


Words = Annotated[tuple[str, ...], AfterValidator(_few)]


class StoryWords(Fields):
    """Persons, objects and places in the stories. Default: the paper's.

    Attributes:
        persons: Names of persons.
        objects: Things that persons can carry.
        places: Places where persons and things can be.
        pronouns: Pronoun of each person, by name.
    """

    persons: Words = Vocabulary().persons
    objects: Words = Vocabulary().objects
    places: Words = Vocabulary().places
    pronouns: dict[str, str] = Field(default_factory=lambda: dict(Vocabulary().pronouns))

    def vocabulary(self) -> Vocabulary:
        """Return the checked vocabulary."""
        for name in self.pronouns:
            if name not in self.persons and name not in DEFAULT_PRONOUNS:
                raise RecipeError(
                    f"vocabulary: pronouns: unknown '{name}'; {nearest(name, self.persons)}"
                )
        vocabulary = Vocabulary(self.persons, self.objects, self.places, dict(self.pronouns))
        vocabulary.check()
        return vocabulary


WORD_LISTS = (*verb_lists(), "negations", "prefixes")
"""Lists of words that a style can replace."""


def _verbs_of(words: str) -> str:
    """Describe a list of verbs: `move`, or `not_grab` for verbs after "did not"."""
    kind = words.removeprefix("not_")
    return f"Verbs of {kind.upper()}" + (' after "did not"' if kind != words else "")


def event_words(event_types: Mapping[Kind, EventType]) -> type[Fields]:
    """Build the fields defined by events: their verbs, and how often a sentence ends in "there".

    The fields of an event that was added after the papers' recipes are marked as later, so that
    their defaults do not change digests.
    """

    def marked(value: Any, later: bool) -> Any:
        return Annotated[value, LATER] if later else value

    words: dict[str, Any] = {}
    for name, verbs in verb_lists(event_types).items():
        later = event_types[cast(Kind, name.removeprefix("not_"))].later
        verbs_field = Field(verbs, description=_verbs_of(name))
        words[name] = (marked(tuple[str, ...], later), verbs_field)
    for kind, t in event_types.items():
        if t.there:
            description = f'How often a {t.name} sentence ends in "there"'
            share = Field(0.0, ge=0, le=1, description=description)
            words[f"there_{kind}"] = (marked(float, t.later), share)
    return create_model("EventWords", __base__=Fields, **words)


if TYPE_CHECKING:
    EventWords = Fields
else:
    EventWords = event_words(EVENT_TYPES)


class Style(EventWords):
    """Verbs and function words. Default: Dyna-bAbI's. Any other verbs can be used.

    Attributes:
        negations: Phrases between "is" and a place where a person is not.
        prefixes: Words at the beginning of a sentence with a pronoun.
        preposition: Word before a place.
        double_object: True to write gifts as "gave John the milk" instead of "gave the milk to
            John".
    """

    negations: tuple[str, ...] = DYNA.negations
    prefixes: tuple[str, ...] = DYNA.prefixes
    preposition: Literal["in", "at"] = "in"
    double_object: bool = False

    @model_validator(mode="after")
    def _readable(self) -> Style:
        for name in WORD_LISTS:
            words = getattr(self, name)
            if not words:
                raise ValueError(f"{name}: at least one word is needed")
            for word in words:
                if not word.strip() or word != word.strip() or any(c in word for c in "\t\n\r.?,"):
                    raise ValueError(
                        f"{name}: {word!r} is not a valid verb: it must not contain commas, full "
                        "stops or tabs, or begin or end with a space"
                    )
        for one, other in _alike():
            both = set(getattr(self, one)) & set(getattr(self, other))
            if both:
                raise ValueError(
                    f"{one} and {other}: '{min(both)}' is in both, so a reader could not "
                    "distinguish them"
                )
        return self

    def lexicon(self) -> StoryLexicon:
        """Return the words in the form needed by the writer and the grammar."""
        return StoryLexicon(
            verbs={name: getattr(self, name) for name in verb_lists()},
            negations=self.negations,
            prefixes=self.prefixes,
            there={
                kind: getattr(self, f"there_{kind}") for kind, t in EVENT_TYPES.items() if t.there
            },
            preposition=self.preposition,
            double_object=self.double_object,
        )


def _alike() -> Iterator[tuple[str, str]]:
    """Yield the verb lists whose sentences differ only in their verbs."""
    for (one, a), (other, b) in combinations(EVENT_TYPES.items(), 2):
        if a.verbs and a.form == b.form:
            yield from ((one, other), (f"not_{one}", f"not_{other}"))


MOST = 1_000
"""Maximum number of sentences in a story, and of questions about a story."""


class QuestionSeries(Fields):
    """Stories with several questions between their sentences, as in bAbI 1.0.

    Attributes:
        questions: Number of questions per story.
        gap: Number of sentences before the first question and between questions.
        ask: Probability of asking a question when one is possible. Otherwise the story continues
            for another gap.
        again: Probability of asking another question directly after one. Default: `ask`.
        hands: Number of persons, drawn for each story, who may handle objects. Default: all.
        things: Number of objects, drawn for each story, that may be handled. Default: all.
    """

    questions: int = Field(default=5, ge=1, le=MOST)
    gap: int = Field(default=2, ge=1, le=MOST)
    ask: float = Field(default=1.0, gt=0, le=1)
    again: float | None = Field(default=None, ge=0, le=1)
    hands: Span | None = None
    things: Span | None = None

    @field_validator("hands", "things")
    @classmethod
    def _at_least_one(cls, number: Span | None) -> Span | None:
        if number is not None and number.low < 1:
            raise ValueError(f"must be at least 1, not {number}")
        return number


class StoryGroup(Fields):
    """One kind of example.

    Attributes:
        name: Name of the group, which is a trait of its examples.
        n: Number of examples, or their proportion if the split has a plain size.
        events: Events with weights. An event with weight 0 only occurs in constructs and proofs.
        wording: Constructs with weights. AFFIRM is "Mary is in the park".
        coref: Events with weights for sentences with a pronoun. Default: all of `events`. NEGATE,
            INDEF and AFFIRM are also allowed.
        conj: Events with weights for sentences with two subjects (or, for GRAB, DROP and GIVE, two
            objects). Default: MOVE. NEGATE, INDEF and AFFIRM are also allowed. COMPOUND uses the
            same weights.
        negate: Events to which NEGATE applies, with weights. Default: MOVE ("is not in the park").
            GRAB, DROP and GIVE ("did not take the milk") are also allowed.
        indef: Events to which INDEF applies, with weights. Default: MOVE ("is either in A or B").
            GRAB, DROP and GIVE ("took it in either A or B") are also allowed.
        questions: Question types with weights.
        length: Number of sentences before the question.
        support: Size of the official support, or a range of sizes.
        falloff: Within a range of sizes, the frequency of each size relative to the previous one.
            With 1, all sizes are equally frequent. Simulated stories have about 0.35.
        composition: Concepts that the official support must contain.
        proofs: planned: the proof is drafted first. simulated: stories are simulated in a world
            with a random initial state, as in the reference code, until one has a question with the
            requested support. This takes many stories.
        frequencies: Concepts with the share of examples whose official support contains them.
            Without this field, all kinds of planned proofs are equally frequent.
        cited: True to use the support that bAbI cites for lists and counts: every sentence in which
            the person gets or gives up something. Default: a minimal support.
        alternatives: Number of distinct minimal supports.
        answers: Answers of yes-no questions with weights.
        distractors: Share of the sentences outside the support that is kept. With 0, only the
            sentences needed for the proof remain.
        position: Part of the story that contains the support.
        per_signature: Maximum examples of the split that have the same support and question except
            for names and places.
        story: Settings for several questions in one story.
        unknown: Share of where-P and where-O questions that the story does not settle. Their answer
            is "unknown".
        exhaustive: True to ask every question of these types that can be answered. The examples of
            a story are consecutive.
    """

    foremost: ClassVar[tuple[str, ...]] = (
        "name",
        "n",
        "questions",
        "support",
        "events",
        "wording",
        "length",
    )

    name: str = ""
    n: int = Field(default=1, ge=0)
    events: EventWeights = Field(default_factory=lambda: {"MOVE": 1.0})
    wording: WordingWeights = Field(default_factory=dict)
    coref: StatementWeights | None = None
    conj: StatementWeights = Field(default_factory=lambda: {"MOVE": 1.0})
    negate: EventWeights = Field(default_factory=lambda: {"MOVE": 1.0})
    indef: EventWeights = Field(default_factory=lambda: {"MOVE": 1.0})
    questions: QuestionWeights = Field(default_factory=lambda: {"where-P": 1.0})
    length: Span = Span(20, 20)
    support: Span | None = None
    falloff: float = Field(default=1.0, gt=0, le=1)
    composition: Concepts = ()
    proofs: Literal["planned", "simulated"] = "planned"
    frequencies: Shares = Field(default_factory=dict)
    cited: bool = False
    alternatives: Span | None = None
    answers: AnswerWeights | None = None
    distractors: float = Field(default=1.0, ge=0, le=1)
    position: Literal["any", "early", "late"] = "any"
    per_signature: int | None = Field(default=None, ge=1)
    story: QuestionSeries | None = None
    unknown: float = Field(default=0.0, ge=0, le=1)
    exhaustive: bool = False

    @model_validator(mode="after")
    def _possible(self) -> StoryGroup:
        for concept in self.composition:
            self._among_concepts("composition", concept)
        for concept in self.frequencies:
            self._among_concepts("frequencies", concept)
        check_rules(self, GROUP_RULES)
        for construct in ("coref", "conj", "negate", "indef"):
            self._check_topics(construct)
        return self

    def _check_topics(self, construct: str) -> None:
        """Reject a construct without topics, or with a topic that does not occur in the stories."""
        weights = getattr(self, construct)
        asked_for = weights is not None or self.wording.get(construct.upper())
        if asked_for and not any(self.topics()[construct.upper()].values()):
            raise ValueError(f"{construct}: at least one event needs a weight above 0")
        # "is not in the park" is not a MOVE event, so the group need not list MOVE for it. "Mary and
        # John went to the park" and "Then she went" are MOVE events.
        moves = construct in ("coref", "conj") and self._says(construct)
        for name in weights or ():
            if name == "MOVE" and not moves:
                continue
            if name not in self.events and name not in self.wording:
                raise ValueError(
                    f"{construct}: {name} is in neither events nor wording; add it there, with "
                    "weight 0 if it should not occur otherwise"
                )

    def _says(self, construct: str) -> bool:
        """True if the wording has a construct whose weights are in the field `coref` or `conj`."""
        constructs = {"coref": ("COREF",), "conj": ("CONJ", "COMPOUND")}[construct]
        return any(name in self.wording for name in constructs)

    def topics(self) -> dict[str, dict[str, float]]:
        """Return the topics of each construct, with weights. By default, every event is a topic of
        COREF, even an event with weight 0.
        """
        coref = self.coref
        if coref is None:
            coref = {event: weight or 1.0 for event, weight in self.events.items()}
        return {
            "COREF": coref,
            "CONJ": self.conj,
            "COMPOUND": self.conj,
            "NEGATE": self.negate,
            "INDEF": self.indef,
        }

    def unlisted(self, event: Event) -> str:
        """Return an event or construct of the sentence that the group does not list, or an empty
        text if all are listed.
        """
        name = EVENT_TYPES[event.kind].name
        if name not in self.events and name not in self.wording:
            return name
        by_pronoun = "COMPOUND" if event.compound else "COREF"
        if event.pronoun and by_pronoun not in self.wording:
            return by_pronoun
        if "CONJ" in event.concepts() and not {"CONJ", "COMPOUND"} & {*self.wording}:
            return "CONJ"
        if event.denied and "NEGATE" not in self.wording:
            return "NEGATE"
        in_either_place = event.thing and event.places
        if in_either_place and "INDEF" not in self.wording:
            return "INDEF"
        return ""

    def _among_concepts(self, field: str, concept: str) -> None:
        if concept not in STORY_CONCEPTS:
            raise ValueError(f"{field}: unknown '{concept}'; {nearest(concept, STORY_CONCEPTS)}")
        if concept not in self.events and concept not in self.wording:
            raise ValueError(
                f"{field}: the support must contain {concept}, which is in neither events nor "
                "wording"
            )

    def concepts(self) -> frozenset[str]:
        """Return the concept set of this group as in the paper: events, constructs and
        questions.
        """
        asked = [question for question, weight in self.questions.items() if weight]
        concepts = {*self.events, *self.wording, *asked} - {AFFIRM}
        if "COMPOUND" in concepts:  # "they" is both: two subjects and a pronoun
            concepts |= {"COREF", "CONJ"}
        return frozenset(concepts)


GROUP_RULES: tuple[Rule[StoryGroup], ...] = (
    Rule(
        lambda group: not 1 <= group.length.low <= group.length.high <= MOST,
        f"length: a story must have 1 to {MOST} sentences, not {{given.length}}",
    ),
    Rule(
        lambda group: not any(group.events.values()) and not any(group.wording.values()),
        "events: at least one event or construct needs a weight above 0",
    ),
    Rule(
        lambda group: not any(group.questions.values()),
        "questions: at least one question type needs a weight above 0",
    ),
    Rule(
        lambda group: group.frequencies and group.support is None,
        "frequencies: set support too",
    ),
    Rule(
        lambda group: (
            group.proofs == "simulated"
            and (group.support is None or group.story or group.exhaustive)
        ),
        "proofs: simulated proofs need stories with one question and a given support",
    ),
    Rule(
        lambda group: (
            group.proofs == "simulated" and (group.position != "any" or group.distractors < 1)
        ),
        "proofs: position and distractors need planned proofs",
    ),
    Rule(
        lambda group: (
            group.exhaustive
            and (group.story or group.per_signature or group.alternatives or group.composition)
        ),
        "exhaustive: requires support, and excludes story, per_signature, alternatives and "
        "composition",
    ),
    Rule(
        lambda group: group.unknown and (group.support or group.exhaustive),
        "unknown: a question that is not settled has no support; leave out support and exhaustive",
    ),
    Rule(
        lambda group: group.unknown and not {"where-P", "where-O"} & {*group.questions},
        "unknown: only where-P and where-O questions can be unknown; add one of them",
    ),
    Rule(
        lambda group: group.answers is not None and "yes-no" not in group.questions,
        "answers: only yes-no questions have these answers; add them",
    ),
    Rule(
        lambda group: (
            group.story
            and (group.per_signature or group.distractors < 1 or group.position != "any")
        ),
        "story: per_signature, distractors and position need stories with one question",
    ),
)
"""Combinations of group fields that are rejected, in the order of checking."""


def _size(value: Any) -> Any:
    return {"n": value} if isinstance(value, int) and not isinstance(value, bool) else value


SplitSize = Annotated[Size, BeforeValidator(_size)]


MOST_GROUPS = 5_000
"""Maximum number of groups in a list. Planning 60,000 takes 30 s and 2 GB. The largest recipe in
the paper has 27.
"""


def _not_too_many(value: Any) -> Any:
    # Check this before the groups are parsed, which takes most of the time.
    if isinstance(value, list | tuple) and len(value) > MOST_GROUPS:
        raise ValueError(f"has {len(value):,} groups, but at most {MOST_GROUPS:,} are supported")
    return value


def _some(value: Any) -> Any:
    if not value:  # test before parsing, because invalid groups would be dropped from the list
        raise ValueError("a list of groups must not be empty")
    return value


Groups = Annotated[tuple[StoryGroup, ...], BeforeValidator(_not_too_many)]
SplitGroups = Annotated[Groups, BeforeValidator(_some)]


def _which(value: Any) -> str:
    return "function-groups" if isinstance(value, list | tuple) else "function-size"


# The alternatives are distinguished by type, so that an error in a group is not also reported as an
# error in a size. Tags with the prefix "function-" do not appear in error messages.
SplitValue = Annotated[
    Annotated[SplitSize, Tag("function-size")] | Annotated[SplitGroups, Tag("function-groups")],
    Discriminator(_which),
]

PARTS = {
    "T2": (2, 11),
    "T7": (1, 2, 3, 5, 11, 12, 13),
    "T12": (1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13),
}
"""The paper's sets of bAbI 1.0 tasks (section 4)."""

NUMBERED = (4, *range(14, 21))
"""bAbI's tasks that have their own worlds."""


class BabiFields(InputParts):
    """Fields of a story recipe.

    Attributes:
        number: One of bAbI's other tasks (4, and 14 to 20), which have their own worlds and no
            groups.
        knobs: Settings of tasks 14 to 20; requires number.
        reading: How much a sentence states: `natural` or `strict`.
        vocabulary: Names of persons, objects and places.
        style: Verbs and function words.
        groups: Kinds of examples, for all splits that only give a number of examples.
        splits: The size of each split, or its own groups.
        holdout: Combinations of concepts that must not occur in any training example. The recipe
            and every example are checked.
        tested_by: A test recipe. Each training group must have some of its concepts but not all of
            them, and together the groups must have all of them.
        concat: Name of one of the paper's sets of bAbI 1.0 tasks, used instead of groups.
        inject: With concat: at each question of each task, also ask every question of these types
            that can be answered.
        window: With concat: leave out questions that have more tokens (words and punctuation marks)
            together with the story before them.
        shares: With concat: weight of each task's number of examples. The default weight is 1.
        source: With concat: a folder with the published files. Default: generate them again with
            our own recipes.
        phrasing: where-P: ask yes-no questions with the answer yes as where-P questions about the
            same story.
    """

    foremost: ClassVar[tuple[str, ...]] = ("groups", "splits")

    number: int | None = world(None)
    knobs: dict[str, Any] = world(default_factory=dict)
    reading: Literal["natural", "strict"] = world("natural")
    vocabulary: StoryWords = world(StoryWords())
    style: Style = presentation(Style())
    groups: Groups = draw(())
    splits: dict[str, SplitValue] = draw(default_factory=dict)
    holdout: tuple[tuple[str, ...], ...] = draw(())
    tested_by: str = draw("")
    concat: Literal["", "T2", "T7", "T12"] = world("")
    inject: dict[int, tuple[Literal["where-P", "where-O"], ...]] = draw(default_factory=dict)
    window: int | None = draw(None, ge=16)
    shares: dict[int, Annotated[float, Field(gt=0, le=1000)]] = draw(default_factory=dict)
    source: str = world("", paths="all")
    phrasing: Annotated[Literal["drawn", "where-P"], LATER] = presentation("drawn")

    @model_validator(mode="after")
    def _whole(self) -> BabiFields:
        try:
            self.vocabulary.vocabulary()
        except RecipeError as error:
            raise ValueError(str(error)) from None
        check_rules(self, RECIPE_RULES)
        for field in ("inject", "shares"):
            for task in getattr(self, field):
                self._check_task(field, task)
        self._check_sizes()
        for concept in chain.from_iterable(self.holdout):
            if concept not in CONCEPTS:
                raise ValueError(f"holdout: unknown '{concept}'; {nearest(concept, CONCEPTS)}")
        return self

    def _check_task(self, field: str, task: int) -> None:
        if task not in PARTS[self.concat]:
            known = ", ".join(map(str, PARTS[self.concat]))
            raise ValueError(f"{field}: {self.concat} has no task {task}; it has {known}")

    def _check_sizes(self) -> None:
        """Reject a split with a plain size if nothing defines its examples."""
        if self.groups or self.concat or self.number is not None:
            return
        for name, value in self.splits.items():
            if isinstance(value, Size):
                raise ValueError(
                    f"splits.{name}: a plain size needs groups at the top of the recipe"
                )


RECIPE_RULES: tuple[Rule[BabiFields], ...] = (
    Rule(
        lambda recipe: not recipe.splits,
        "splits: add at least one, e.g. splits: {{train: 1000}}",
    ),
    Rule(
        lambda recipe: recipe.number is not None and recipe.number not in NUMBERED,
        "number: only 4 and 14 to 20 have their own worlds, not {given.number}; see the recipe "
        "babi/{given.number}",
    ),
    Rule(
        lambda recipe: (
            (recipe.inject or recipe.source or recipe.window or recipe.shares) and not recipe.concat
        ),
        "inject, window, shares and source need concat; set it to a set of tasks",
    ),
    Rule(
        lambda recipe: (recipe.concat or recipe.number is not None) and recipe.style != Style(),
        "style: concat and number use the words of their tasks; change the style in a recipe "
        "with groups",
    ),
    Rule(
        lambda recipe: recipe.concat and recipe.vocabulary != StoryWords(),
        "vocabulary: concat uses the words of its tasks; change them in a recipe with groups",
    ),
)
"""Combinations of recipe fields that are rejected, in the order of checking."""
