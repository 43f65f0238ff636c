"""The fields of a function recipe."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, field_validator, model_validator

from taskloom.core.errors import RecipeError, nearest
from taskloom.recipe import Fields
from taskloom.recipe.fields import draw, presentation, world
from taskloom.suites.taskbench.split_shares import SplitShares

Family = Literal["lexical", "random", "factual"]
Composition = Literal[
    "atomic", "chain", "union", "intersection", "land", "lor", "map", "filter", "map_filter"
]

MOST_FUNCTIONS = 5_000
"""Maximum number of functions in a recipe, because each is evaluated on its whole domain before the
first row. The largest recipe of the gallery, `taskbench/composed`, has 3,267; 400 of its chains
take 2.2 CPU seconds.
"""


class CatalogFields(Fields):
    """Selection of the paper's tasks: all atoms belong to these families, and the composition is
    one of these.
    """

    families: tuple[Family, ...] = get_args(Family)
    compositions: tuple[Composition, ...] = get_args(Composition)


class ComposeFields(Fields):
    """All compositions of depth two: of the given atoms, or of the paper's atoms of any of the
    families.
    """

    families: tuple[Family, ...] = get_args(Family)
    compositions: tuple[str, ...] = Field(
        get_args(Composition), description="Kinds of compositions, of all operators of the language"
    )
    atoms: tuple[str, ...] = Field(
        (), description="Atoms to compose; the paper's, of the families, where none is given"
    )

    @field_validator("compositions")
    @classmethod
    def _compositions(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        from taskloom.suites.taskbench.catalog import composition_names

        for kind in given:
            if kind not in composition_names():
                raise ValueError(
                    f"'{kind}' is not a kind of composition; {nearest(kind, composition_names())}"
                )
        return given

    @field_validator("atoms")
    @classmethod
    def _atoms(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        from taskloom.suites.taskbench.catalog import check_atom

        return tuple(dict.fromkeys(check_atom(name) for name in given))


class RuleFields(Fields):
    """Rules for the values of a lexical relation. The defaults are the reference's rules."""

    senses: Literal["all", "first"] = Field(
        "all", description="All senses of a word, or the most frequent one"
    )
    inflections: bool = Field(True, description="Whether bone may be a synonym of bones")
    outputs: Literal["any", "vocabulary"] = Field(
        "any", description="Any lemma, or only words of the vocabulary"
    )


class SequenceFields(Fields):
    """The sequence sampler."""

    n: Annotated[int, Field(ge=1)] | dict[str, Annotated[int, Field(ge=0, strict=True)]] = Field(
        2_000,
        description=(
            "Sequences of all splits together, of which each has its share; or those of each split,"
            " by name"
        ),
    )
    length: int = Field(8, ge=1, le=1_000, description="Words in a sequence")
    kept: int = Field(4, ge=1, description="Words that a filter keeps")
    separators: bool = presentation(False, description="Write # between the items")
    word_disjoint: bool | None = Field(
        None, description="Splits share no words, not only no sequences; as `pairs`, unless given"
    )
    words: int = Field(
        1, ge=1, description="Fewest different words that a task's sequences are made of"
    )

    @model_validator(mode="after")
    def _fits(self) -> SequenceFields:
        if self.kept > self.length:
            raise ValueError(
                f"kept ({self.kept}) is larger than length ({self.length}): a filter keeps some of"
                " the words"
            )
        return self


class FewShotFields(Fields):
    """Small training sets, drawn several times."""

    k: int = Field(32, ge=1, description="Examples in a set")
    draws: int = Field(4, ge=1, le=100, description="Sets")


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class TaskbenchFields(Fields):
    """Fields of a function recipe."""

    foremost: ClassVar[tuple[str, ...]] = ("functions", "lexicon", "pairing", "labels")

    functions: Annotated[tuple[str, ...], BeforeValidator(_one_or_many)] = draw(
        (), description="Functions, in any of the three notations"
    )
    catalog: CatalogFields | None = draw(
        None, description="Tasks of the paper, besides `functions`"
    )
    compose: ComposeFields | None = draw(
        None,
        description=(
            "All compositions of depth two of some atoms, as the paper enumerated them, besides"
            " `functions`"
        ),
    )
    lexicon: Literal["packaged", "nltk", "synthetic"] | None = world(
        None,
        description=(
            "packaged: English, in this package. nltk: the paper's vocabularies, Spanish,"
            " sentiment. synthetic: invented words"
        ),
    )
    rules: RuleFields = world(
        RuleFields(), description="What counts as a value of a lexical relation"
    )
    pairing: Literal["other", "any", "permutation"] = world(
        "other", description="How random relations pair words: with another, with any, one to one"
    )
    facts: str = world(
        "synthetic",
        paths="marked",
        description=(
            "Where facts come from: synthetic, wikidata, built, a file or folder, an endpoint"
        ),
    )
    case: Literal["as-is", "lower"] = world(
        "as-is",
        description=(
            "Case of inputs and answers: that of WordNet and Wikidata, or lower case as in the"
            " released data"
        ),
    )
    union_domain: Literal["either", "common"] = draw(
        "either",
        description=(
            "Inputs of factual unions: those of either operand, or those of both (the reference)"
        ),
    )
    minimum: int = draw(
        100, ge=1, description="Fewest examples of a task: different inputs, words or sequences"
    )
    shares: dict[str, Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]] = draw(
        {"train": 0.8, "dev": 0.1, "test": 0.1},
        description=(
            "Share of all words that each split has, together at most 1; a word is in one split,"
            " the same in every task"
        ),
    )
    pairs: Literal["disjoint", "published"] = draw(
        "disjoint",
        description=(
            "disjoint: no pair of an input and an answer that is tested is in training, the other"
            " way round neither. published: words are split by input alone, sequences by their text"
        ),
    )
    sequences: SequenceFields = draw(SequenceFields(), description="The sequence sampler")
    few_shot: FewShotFields | None = draw(
        FewShotFields(), description="Small training sets, drawn several times"
    )
    memorise: int = draw(
        0,
        ge=0,
        description="Size of a training set for memorisation, 0 for none (the paper: 1,000)",
    )
    labels: Literal["true", "permuted"] = presentation(
        "true", description="permuted: labels shuffled across inputs (App. E)"
    )
    balanced: bool = draw(
        False, description="Unions as balanced mixtures of their two operands (App. D)"
    )
    answers: bool = draw(
        True, description="For sequence tasks a split with the answers of each word, stored once"
    )

    @field_validator("functions")
    @classmethod
    def _normal(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        """Name functions by their normal form, so that two spellings of a recipe have one
        digest.
        """
        from taskloom.suites.taskbench.language import name, read

        return tuple(dict.fromkeys(name(read(text)) for text in given))

    @model_validator(mode="after")
    def _something(self) -> TaskbenchFields:
        if not self.functions and self.catalog is None and self.compose is None:
            raise ValueError(
                "a function recipe names 'functions:', a part of the 'catalog:' or atoms to"
                " 'compose:'"
            )
        if "train" not in self.shares:
            raise ValueError("shares must give the split 'train' a share")
        try:
            SplitShares(self.shares).check()
        except ValueError as error:
            raise ValueError(f"shares: {error}") from None
        if isinstance(self.sequences.n, dict):
            for name in self.sequences.n:
                if name not in self.shares:
                    raise ValueError(
                        f"sequences.n: there is no split '{name}'; {nearest(name, self.shares)}"
                    )
        if self.pairs == "disjoint" and self.sequences.word_disjoint is False:
            raise ValueError(
                "sequences.word_disjoint: disjoint pairs need disjoint words; write true, or pairs:"
                " published"
            )
        return self

    @property
    def word_disjoint(self) -> bool:
        """True if the sequences of two splits share no words."""
        given = self.sequences.word_disjoint
        return self.pairs == "disjoint" if given is None else given

    def where_facts_are(self) -> str:
        """`facts` with the resolved path of its file, if it names one, followed by its settings."""
        name, mark, settings = self.facts.partition("#")
        return (
            f"{self.find_file(name)}{mark}{settings}" if name in self.file_names() else self.facts
        )

    def key_fields(self) -> dict[str, Any]:
        """Empty: only the seed and a word's text decide its split, in every world and wherever the
        files of facts are located.

        Facts are drawn with the world's own keys, so the streams of a recipe need no fields.
        """
        return {}

    def tasks(self) -> list[str]:
        """Return the normal names of all functions of the recipe, in order, each once.

        Raises:
            RecipeError: There are more than `MOST_FUNCTIONS`.
        """
        from taskloom.suites.taskbench.catalog import compositions, paper_atoms, select
        from taskloom.suites.taskbench.language import name, parse

        chosen = select(self.catalog.families, self.catalog.compositions) if self.catalog else []
        names = [*self.functions, *(name(parse(task.expression)) for task in chosen)]
        if self.compose is not None:
            atoms = self.compose.atoms or paper_atoms(self.compose.families)
            names += compositions(atoms, self.compose.compositions, MOST_FUNCTIONS)
        different = list(dict.fromkeys(names))
        if len(different) > MOST_FUNCTIONS:
            raise RecipeError(
                f"functions: the recipe has {len(different):,}, with those of catalog and compose,"
                f" and at most {MOST_FUNCTIONS:,} are evaluated; name fewer"
            )
        return different

    def lexicon_for(self, atoms: set[str]) -> str:
        """Name of the lexicon: as given, or `nltk` if the packaged one lacks a language or the
        sentiments.
        """
        beyond = sorted(
            a for a in atoms if "spa" in a.partition("[")[2] or a.startswith("is_sentiment")
        )
        if self.lexicon == "packaged" and beyond:
            raise RecipeError(
                f"{beyond[0]} is not in the packaged lexicon, which is English without sentiment:"
                " use lexicon=nltk or synthetic"
            )
        return self.lexicon or ("nltk" if beyond else "packaged")
