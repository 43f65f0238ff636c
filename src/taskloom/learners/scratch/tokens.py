"""Encoding of text as arrays, without downloads: a vocabulary of space-separated words, stories
split into sentences, and a list of classes.

Words and classes are sorted as strings, as in CTL++: digits, capital letters, small letters. The id
of EOS is the one after the last word's, and the id of SOS is the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from taskloom.core.errors import InputError, nearest
from taskloom.learners.interface import LearnerError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class WordVocabulary:
    """A vocabulary of words in the order of their ids."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> WordVocabulary:
        """Collect the words of the given texts, sorted as strings."""
        return cls(tuple(sorted({word for text in texts for word in text.split()})))

    @cached_property
    def ids(self) -> dict[str, int]:
        """Map words to ids."""
        return {word: i for i, word in enumerate(self.words)}

    @property
    def eos(self) -> int:
        """Id of the end-of-sequence token."""
        return len(self.words)

    @property
    def sos(self) -> int:
        """Id of the start-of-sequence token."""
        return len(self.words) + 1

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text's words."""
        return self.look_up(text.split(), text)

    def look_up(self, words: Sequence[str], text: str) -> list[int]:
        """Return the ids of a text's words. An unknown word raises an error."""
        try:
            return [self.ids[word] for word in words]
        except KeyError as error:
            word = str(error.args[0])
            raise InputError(
                f"the word '{word}' of the input {text[:60]!r} was in no split that this learner"
                f" was fitted with; {nearest(word, self.words)}"
            ) from None


def sentences_of(text: str) -> list[list[str]]:
    """Split a text into sentences of lower-case words without punctuation. The last sentence is the
    question.
    """
    sentences = []
    for piece in re.split(r"[.?!\n]", text):
        words = re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", piece.lower())
        if words:
            sentences.append(words)
    if not sentences:
        raise InputError(
            f"the input {text[:60]!r} has no sentence; write sentences and then a question, e.g. "
            "'Mary went to the park. Where is Mary?'"
        )
    return sentences


@dataclass(frozen=True)
class Stories:
    """Encoding of stories: the question first, then the last `most` sentences, each in `sentence`
    positions.

    Id 0 is padding, and word i of the vocabulary has the id i + 1.
    """

    words: WordVocabulary
    sentence: int
    most: int

    @classmethod
    def of(cls, texts: Iterable[str], most: int) -> Stories:
        """Collect the words of the given texts, and find the length of their longest sentence."""
        words: set[str] = set()
        longest = 1
        for text in texts:
            for sentence in sentences_of(text):
                words.update(sentence)
                longest = max(longest, len(sentence))
        return cls(WordVocabulary(tuple(sorted(words))), longest, most)

    def encode(self, inputs: Sequence[str], labels: Sequence[int] | None = None) -> Encoded:
        """Encode stories as padded arrays."""
        import numpy as np

        rows = [self._row(text) for text in inputs]
        lengths = np.array([row.size for row in rows], dtype=np.int64)
        tokens = np.zeros((len(rows), int(lengths.max(initial=0))), dtype=np.int64)
        for padded, row in zip(tokens, rows, strict=True):
            padded[: row.size] = row
        return Encoded(tokens, lengths, _labels(labels, len(rows)))

    def _row(self, text: str) -> NDArray[np.int64]:
        import numpy as np

        *sentences, question = sentences_of(text)
        kept = [question, *sentences[-self.most :]]
        row = np.zeros((len(kept), self.sentence), dtype=np.int64)
        for padded, words in zip(row, kept, strict=True):
            if len(words) > self.sentence:
                raise InputError(
                    f"a sentence has {len(words)} words and this learner was fitted with at most "
                    f"{self.sentence}: {' '.join(words)[:60]!r}; cut it in two, or fit the "
                    "learner with a split that has such sentences"
                )
            padded[: len(words)] = self.words.look_up(words, text)
            padded[: len(words)] += 1  # 0 is padding
        return row.ravel()


@dataclass(frozen=True, slots=True)
class Encoded:
    """Inputs as ids: tokens [n, longest], padded; lengths [n]; labels [n], -1 if the answer is not
    a known class.
    """

    tokens: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lengths)

    def framed(self, sos: int | None, eos: int | None) -> Encoded:
        """Add SOS before and EOS after each row. Padding is 0, which no network reads."""
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


def encode(
    inputs: Sequence[str], words: WordVocabulary, labels: Sequence[int] | None = None
) -> Encoded:
    """Encode texts as padded arrays."""
    import numpy as np

    rows = [words.encode(text) for text in inputs]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    tokens = np.zeros((len(rows), int(lengths.max(initial=0))), dtype=np.int64)
    # Assign all rows at once, using a mask.
    real = np.arange(tokens.shape[1])[None, :] < lengths[:, None]
    every_token = chain.from_iterable(rows)
    tokens[real] = np.fromiter(every_token, dtype=np.int64, count=int(lengths.sum()))
    return Encoded(tokens, lengths, _labels(labels, len(rows)))


def _labels(labels: Sequence[int] | None, rows: int) -> NDArray[np.int64]:
    import numpy as np

    if labels is None:
        return np.full(rows, -1, dtype=np.int64)
    return np.asarray(labels, dtype=np.int64)


def classes_of(targets: Iterable[str], most: int) -> tuple[str, ...]:
    """Return the distinct answers, sorted as strings. Raise an error if there are more than a
    classifier can have.
    """
    classes = tuple(sorted(set(targets)))
    if len(classes) > most:
        raise LearnerError(
            f"a classifier has one output per answer and the training split has {len(classes)}"
            f" different answers (limit {most}); use a learner that writes text, such as"
            " 'encoder-decoder'"
        )
    return classes
