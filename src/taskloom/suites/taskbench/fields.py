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
    """Selection of the paper's tasks: those whose atoms all belong to these families and whose
    composition is one of these.
    """

    families: tuple[Family, ...] = get_args(Family)
    compositions: tuple[Composition, ...] = get_args(Composition)


class ComposeFields(Fields):
    """All compositions of depth two of the given atoms, or of the paper's atoms of the given
    families.
    """

    families: tuple[Family, ...] = get_args(Family)
    compositions: tuple[str, ...] = Field(
        get_args(Composition),
        description="Kinds of compositions, including those of all operators of the language",
    )
    atoms: tuple[str, ...] = Field(
        (), description="Atoms to compose; by default the paper's atoms of the families"
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
        "all", description="All senses of a word, or only the most frequent one"
    )
    inflections: bool = Field(
        True,
        description="Whether a base form may be the answer for its inflected form, such as bone "
        "for bones",
    )
    outputs: Literal["any", "vocabulary"] = Field(
        "any", description="Any lemma, or only words of the vocabulary"
    )


class SequenceFields(Fields):
    """The sequence sampler."""

    n: Annotated[int, Field(ge=1)] | dict[str, Annotated[int, Field(ge=0, strict=True)]] = Field(
        2_000,
        description=(
            "Number of sequences in all splits together, divided by their shares; or "
            "numbers by split name"
        ),
    )
    length: int = Field(8, ge=1, le=1_000, description="Number of words in a sequence")
    kept: int = Field(4, ge=1, description="Number of words that a filter keeps")
    separators: bool = presentation(False, description="Write # between the items")
    word_disjoint: bool | None = Field(
        None,
        description="Splits share no words, rather than just no sequences; by default "
        "decided by `pairs`",
    )
    words: int = Field(
        1,
        ge=1,
        description="Minimum number of distinct words from which a task's sequences are made",
    )

    @model_validator(mode="after")
    def _fits(self) -> SequenceFields:
        if self.kept > self.length:
            raise ValueError(
                f"kept ({self.kept}) is larger than length ({self.length}); a filter "
                "cannot keep more words than there are"
            )
        return self


class FewShotFields(Fields):
    """Small training sets, each drawn several times."""

    k: int = Field(32, ge=1, description="Number of examples in a set")
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
        None, description="Tasks of the paper to add to `functions`"
    )
    compose: ComposeFields | None = draw(
        None,
        description=(
            "All compositions of depth two of the given atoms, enumerated as in the "
            "paper, to add to `functions`"
        ),
    )
    lexicon: Literal["packaged", "nltk", "synthetic"] | None = world(
        None,
        description=(
            "packaged: English, included in this package. nltk: the paper's "
            "vocabularies, Spanish, sentiment. synthetic: invented words"
        ),
    )
    rules: RuleFields = world(
        RuleFields(), description="What counts as a value of a lexical relation"
    )
    pairing: Literal["other", "any", "permutation"] = world(
        "other",
        description="How random relations pair words: with another word, with any word, or "
        "one to one",
    )
    facts: str = world(
        "synthetic",
        paths="marked",
        description=(
            "Source of facts: synthetic, wikidata, built, a file or folder, or an endpoint"
        ),
    )
    case: Literal["as-is", "lower"] = world(
        "as-is",
        description=(
            "Case of inputs and answers: as in WordNet and Wikidata, or lower case "
            "as in the released data"
        ),
    )
    union_domain: Literal["either", "common"] = draw(
        "either",
        description=(
            "Inputs of factual unions: those known to either operand, or only those "
            "known to both (as in the reference code)"
        ),
    )
    minimum: int = draw(
        100,
        ge=1,
        description="Minimum number of examples of a task: distinct inputs, words or sequences",
    )
    shares: dict[str, Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]] = draw(
        {"train": 0.8, "dev": 0.1, "test": 0.1},
        description=(
            "Share of all words for each split, adding up to at most 1; a word is in "
            "the same split in every task"
        ),
    )
    pairs: Literal["disjoint", "published"] = draw(
        "disjoint",
        description=(
            "disjoint: no tested pair of input and answer is in training, in either "
            "direction. published: words are split by input only, sequences by their "
            "text"
        ),
    )
    sequences: SequenceFields = draw(
        SequenceFields(), description="Settings of the sequence sampler"
    )
    few_shot: FewShotFields | None = draw(
        FewShotFields(), description="Small training sets, each drawn several times"
    )
    memorise: int = draw(
        0,
        ge=0,
        description="Size of a training set for memorisation; 0 for none (the paper: 1,000)",
    )
    labels: Literal["true", "permuted"] = presentation(
        "true", description="permuted: labels shuffled across inputs (App. E)"
    )
    balanced: bool = draw(
        False, description="Build unions as balanced mixtures of their two operands (App. D)"
    )
    answers: bool = draw(
        True,
        description="For sequence tasks, add a split with all answers of each word, stored once",
    )

    @field_validator("functions")
    @classmethod
    def _normal(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        """Replace functions by their normal forms, so that two spellings of a recipe have the same
        digest.
        """
        from taskloom.suites.taskbench.language import name, read

        return tuple(dict.fromkeys(name(read(text)) for text in given))

    @model_validator(mode="after")
    def _something(self) -> TaskbenchFields:
        if not self.functions and self.catalog is None and self.compose is None:
            raise ValueError(
                "a function recipe needs 'functions:', a selection of the 'catalog:' "
                "or atoms to 'compose:'"
            )
        if "train" not in self.shares:
            raise ValueError("shares must include the split 'train'")
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
                "sequences.word_disjoint: disjoint pairs require disjoint words; "
                "write true, or pairs: published"
            )
        return self

    @property
    def word_disjoint(self) -> bool:
        """True if the sequences of two splits share no words."""
        given = self.sequences.word_disjoint
        return self.pairs == "disjoint" if given is None else given

    def where_facts_are(self) -> str:
        """Return `facts` with the resolved path of its file, if it names one, and its settings."""
        name, mark, settings = self.facts.partition("#")
        return (
            f"{self.find_file(name)}{mark}{settings}" if name in self.file_names() else self.facts
        )

    def key_fields(self) -> dict[str, Any]:
        """Return nothing: the split of a word depends only on the seed and its text, regardless of
        the world and the location of fact files.

        Facts are drawn with the world's own keys, so the streams of a recipe do not depend on its
        fields.
        """
        return {}

    def tasks(self) -> list[str]:
        """Return the normal names of all functions of the recipe, in order, each once.

        Raises:
            RecipeError: If there are more than `MOST_FUNCTIONS`.
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
                f"functions: the recipe has {len(different):,} functions, including "
                f"those of catalog and compose, but at most {MOST_FUNCTIONS:,} are "
                "supported; list fewer"
            )
        return different

    def lexicon_for(self, atoms: set[str]) -> str:
        """Return the name of the lexicon: the one given, or `nltk` if the packaged lexicon lacks a
        language or sentiments.
        """
        beyond = sorted(
            a for a in atoms if "spa" in a.partition("[")[2] or a.startswith("is_sentiment")
        )
        if self.lexicon == "packaged" and beyond:
            raise RecipeError(
                f"{beyond[0]} is not in the packaged lexicon, which has only English "
                "words and no sentiment; use lexicon=nltk or synthetic"
            )
        return self.lexicon or ("nltk" if beyond else "packaged")
