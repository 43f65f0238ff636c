"""From text to arrays without downloads: a vocabulary of blank-separated words, and a list of classes.

The order of both is the order of the strings, as in CTL++: digits, capital letters, small letters; EOS is the id after the last
word and SOS the one after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from taskloom.errors import InputError, nearest
from taskloom.learners.interface import LearnerError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Words:
    """A vocabulary of words in the order of their ids."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Words:
        """The words of some texts, sorted as strings."""
        return cls(tuple(sorted({word for text in texts for word in text.split()})))

    @cached_property
    def ids(self) -> dict[str, int]:
        """From word to id."""
        return {word: i for i, word in enumerate(self.words)}

    @property
    def eos(self) -> int:
        """The id of the end."""
        return len(self.words)

    @property
    def sos(self) -> int:
        """The id of the start."""
        return len(self.words) + 1

    def encode(self, text: str) -> list[int]:
        """The ids of a text's words."""
        try:
            return [self.ids[word] for word in text.split()]
        except KeyError as error:
            word = str(error.args[0])
            raise InputError(
                f"the word '{word}' of the input {text[:60]!r} was in no split that this learner was fitted with; "
                f"{nearest(word, self.words)}"
            ) from None


@dataclass(frozen=True, slots=True)
class Encoded:
    """Inputs as ids: tokens [n, longest], padded; lengths [n]; labels [n], -1 where the answer is no known class."""

    tokens: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lengths)

    def framed(self, sos: int | None, eos: int | None) -> Encoded:
        """With SOS before and EOS after each row; padding is 0, which no network looks at."""
        import numpy as np

        front, back = int(sos is not None), int(eos is not None)
        n, longest = self.tokens.shape
        out = np.zeros((n, longest + front + back), dtype=np.int64)
        out[:, front : front + longest] = self.tokens
        out[:, front:][np.arange(longest + back)[None, :] >= self.lengths[:, None]] = 0
        if sos is not None:
            out[:, 0] = sos
        if eos is not None:
            out[np.arange(n), self.lengths + front] = eos
        return Encoded(out, self.lengths + front + back, self.labels)


def encode(inputs: Sequence[str], words: Words, labels: Sequence[int] | None = None) -> Encoded:
    """Texts as padded arrays."""
    import numpy as np

    rows = [words.encode(text) for text in inputs]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    tokens = np.zeros((len(rows), int(lengths.max(initial=0))), dtype=np.int64)
    tokens[np.arange(tokens.shape[1])[None, :] < lengths[:, None]] = np.fromiter(
        (token for row in rows for token in row), dtype=np.int64, count=int(lengths.sum())
    )
    found = np.full(len(rows), -1, dtype=np.int64) if labels is None else np.asarray(labels, dtype=np.int64)
    return Encoded(tokens, lengths, found)


def classes_of(targets: Iterable[str], most: int) -> tuple[str, ...]:
    """The different answers, sorted as strings; too many for a classifier is an error."""
    found = tuple(sorted(set(targets)))
    if len(found) > most:
        raise LearnerError(
            f"a classifier has one output per answer and the training split has {len(found)} different answers (limit {most}); "
            "use a learner that writes text, such as 'encoder-decoder'"
        )
    return found
