"""Keyed random streams, keyed hashes and keyed permutations.

All randomness in Taskloom is derived from a `Key`: a BLAKE2b digest of the stream's purpose (recipe
digest, seed, split, index). Different keys give unrelated streams, so seeds 42 and 43 have nothing
in common, and no stream depends on the number of workers, the order of generation, the machine or
PYTHONHASHSEED. Never use seed + index.

Only the raw output of Philox is used (`random_raw`), because NumPy guarantees stable output for bit
generators but not for `Generator` methods.

`pick`, `sample` and `pick_two` are used in bAbI's inner loops, where speed matters: with
`rng.sample` and `rng.shuffle` everywhere, generating `babi/mix-T7` takes 13 % more CPU. The other
methods of `random.Random` are fast enough to be called directly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b, shake_256
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    U64 = NDArray[np.uint64]
    I64 = NDArray[np.int64]

Part = str | int | bytes

TABLE_LIMIT = 1 << 16
"""Maximum size of a permutation stored as a random table. Larger ones use a Feistel network, which
needs no memory.
"""

WORD_LIMIT = 1 << 62
"""Maximum size of a permutation computed with machine integers. Larger permutations use Python
integers.
"""

_ROUNDS = 10


class Random(random.Random):
    """The standard library's generator with a keyed seed. Task functions receive it as `rng`."""


def encode(parts: tuple[Part, ...]) -> bytes:
    """Encode parts as bytes with their types and lengths, so that ("ab", "c") and ("a", "bc")
    differ.
    """
    out = bytearray()
    for part in parts:
        if isinstance(part, str):
            tag, raw = b"s", part.encode("utf-8", "surrogatepass")
        elif isinstance(part, int):
            tag, raw = b"i", str(int(part)).encode()
        else:
            tag, raw = b"b", bytes(part)
        out += tag + len(raw).to_bytes(8, "little") + raw
    return bytes(out)


class Key:
    """A node in the tree of random streams.

    >>> Key("demo", 0).child("train") == Key("demo", 0).child("train")
    True
    >>> Key("demo", 0).random("train", 7).random() == Key("demo", 1).random("train", 7).random()
    False
    """

    __slots__ = ("digest",)

    def __init__(self, *parts: Part) -> None:
        self.digest = blake2b(encode(parts), digest_size=32).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Key<{self.digest.hex()[:12]}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self.digest,))

    def _hash(self, parts: tuple[Part, ...], size: int) -> bytes:
        return blake2b(encode(parts), digest_size=size, key=self.digest).digest()

    def child(self, *parts: Part) -> Key:
        """Return the key of a sub-stream."""
        return _restore(self._hash(parts, 32))

    def random(self, *parts: Part) -> Random:
        """Return a generator for one item."""
        return Random(int.from_bytes(self._hash(parts, 32), "little"))

    def hash64(self, *parts: Part) -> int:
        """Return a keyed 64-bit hash of a content key."""
        return int.from_bytes(self._hash(parts, 8), "little")

    def hashes64(self, texts: Iterable[str]) -> U64:
        """Return hashes of many texts, equal to those of `hash64` but in a third of the time."""
        import numpy as np

        digests = []
        for text in texts:
            raw = text.encode("utf-8", "surrogatepass")
            encoded = b"s" + len(raw).to_bytes(8, "little") + raw
            digests.append(blake2b(encoded, digest_size=8, key=self.digest).digest())
        return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)

    def unit(self, *parts: Part) -> float:
        """Return a keyed hash of a content key, scaled to [0, 1). Used to assign content keys to
        splits.
        """
        return (self.hash64(*parts) >> 11) / (1 << 53)

    def share(self, sizes: Mapping[str, int]) -> dict[str, Callable[[str], bool]]:
        """Divide all contents among splits in proportion to their sizes. Returns one predicate per
        split, which is true for the contents of that split.

        Every content belongs to exactly one split, so splits are disjoint regardless of how their
        examples are drawn.
        """
        total, low = max(1, sum(sizes.values())), 0
        found: dict[str, Callable[[str], bool]] = {}
        for name, n in sizes.items():
            found[name] = partial(_between, self, low / total, (low + n) / total)
            low += n
        return found

    def words(self, start: int, stop: int) -> U64:
        """Return words start..stop of this key's infinite Philox stream. Any slice can be generated
        independently.
        """
        import numpy as np

        # Philox gives four words per counter step, so whole steps are skipped by advancing the
        # counter.
        bits = np.random.Philox(key=int.from_bytes(self.digest[:16], "little"))
        skip = start // 4
        bits.advance(skip)
        return np.asarray(bits.random_raw(stop - 4 * skip), dtype=np.uint64)[start - 4 * skip :]

    def permutation(self, size: int, *parts: Part) -> Permutation:
        """Return a keyed random permutation of range(size)."""
        return Permutation(self.child(*parts) if parts else self, size)


def _between(key: Key, low: float, high: float, content: str) -> bool:
    return low <= key.unit(content) < high


def _restore(digest: bytes) -> Key:
    key = Key.__new__(Key)
    key.digest = digest
    return key


class Permutation:
    """A keyed bijection of range(size) with its inverse. Any position can be computed
    independently.

    Small sizes use a table with a uniformly random permutation. Larger sizes use an alternating
    Feistel network over the next power of two, applied repeatedly until the value is in the range
    again (cycle walking, at most two passes on average).
    """

    __slots__ = ("_keys", "_left", "_right", "key", "size")

    def __init__(self, key: Key, size: int) -> None:
        if size < 0:
            raise ValueError(f"a permutation needs a size of at least 0, not {size}")
        self.key = key
        self.size = size
        bits = max(2, (size - 1).bit_length())
        self._left = bits // 2
        self._right = bits - self._left
        self._keys = [key.hash64("round", i) for i in range(_ROUNDS)] if size > TABLE_LIMIT else []

    def __call__(self, positions: Any) -> Any:
        """Permute positions: an array of integers, or one integer."""
        return self._apply(positions, forward=True)

    def inverse(self, values: Any) -> Any:
        """Invert the permutation for an array of integers, or one integer."""
        return self._apply(values, forward=False)

    def _apply(self, positions: Any, forward: bool) -> Any:
        import numpy as np

        if isinstance(positions, int):
            if self.size > WORD_LIMIT:
                return self._walk_one(positions, forward)
            return int(self._apply(np.array([positions], dtype=np.int64), forward)[0])
        if self.size > WORD_LIMIT:
            return np.array([self._walk_one(int(p), forward) for p in positions], dtype=object)
        if self.size <= TABLE_LIMIT:
            return _table(self.key.digest, self.size)[0 if forward else 1][positions]
        values = positions.astype(np.uint64)
        limit = np.uint64(self.size)
        values = self._rounds(values, forward)
        outside = np.flatnonzero(values >= limit)
        while outside.size:
            values[outside] = self._rounds(values[outside], forward)
            outside = outside[values[outside] >= limit]
        return values.astype(np.int64)

    def _rounds(self, values: U64, forward: bool) -> U64:
        import numpy as np

        shift = np.uint64(self._right)
        mask_left = np.uint64((1 << self._left) - 1)
        mask_right = np.uint64((1 << self._right) - 1)
        left, right = values >> shift, values & mask_right
        for i in range(_ROUNDS) if forward else reversed(range(_ROUNDS)):
            if i % 2 == 0:
                left ^= _mix(right, self._keys[i]) & mask_left
            else:
                right ^= _mix(left, self._keys[i]) & mask_right
        return (left << shift) | right

    def _walk_one(self, value: int, forward: bool) -> int:
        """Apply the same network to a Python integer, for sizes beyond machine integers."""
        mask_left, mask_right = (1 << self._left) - 1, (1 << self._right) - 1
        while True:
            left, right = value >> self._right, value & mask_right
            for i in range(_ROUNDS) if forward else reversed(range(_ROUNDS)):
                if i % 2 == 0:
                    left ^= self._wide(right, i) & mask_left
                else:
                    right ^= self._wide(left, i) & mask_right
            value = (left << self._right) | right
            if value < self.size:
                return value

    def _wide(self, half: int, i: int) -> int:
        size = (self._right + 7) // 8
        raw = self._keys[i].to_bytes(8, "little") + half.to_bytes(size, "little")
        return int.from_bytes(shake_256(raw).digest(size), "little")


def _mix(half: U64, key: int) -> U64:
    """Apply the finaliser of SplitMix64 to half + key, so that every input bit affects every output
    bit.
    """
    import numpy as np

    z = half + np.uint64(key)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


@lru_cache(maxsize=64)
def _table(digest: bytes, size: int) -> tuple[I64, I64]:
    import numpy as np

    forward = np.argsort(_restore(digest).words(0, size), kind="stable").astype(np.int64)
    backward = np.empty_like(forward)
    backward[forward] = np.arange(size, dtype=np.int64)
    return forward, backward


T = TypeVar("T")

POOL = 21
"""Maximum number of items for which the standard library samples from a list. For more items, it
uses a set of drawn indices.
"""

WIDTHS = tuple([count.bit_length() for count in range(POOL + 1)])
"""Number of random bits needed to choose one of n items, for n from 0 to `POOL`."""

STEPS = tuple([(count - 1, count.bit_length()) for count in range(POOL, 0, -1)])
"""Index of the last item and number of random bits, for each number of items from `POOL` down to
1.
"""


def pick(rng: Random, items: Sequence[T]) -> T:
    """Draw one item uniformly, three times as fast as `rng.choice`."""
    return items[int(rng.random() * len(items))]


def sample(rng: Random, items: Sequence[T], count: int) -> list[T]:
    """Draw `count` distinct items in random order, with the same result as `rng.sample` but without
    its checks.

    >>> sample(Random(1), "abcdefgh", 8) == Random(1).sample("abcdefgh", 8)
    True
    """
    if not 0 <= count <= len(items) <= POOL:
        return rng.sample(items, count)
    pool, bits, start = list(items), rng.getrandbits, POOL - len(items)
    for last, width in STEPS[start : start + count]:
        at = bits(width)
        while at > last:
            at = bits(width)
        pool[at], pool[last] = pool[last], pool[at]  # drawn items accumulate at the end
    pool.reverse()
    return pool if count == len(pool) else pool[:count]


def pick_two(rng: Random, items: Sequence[T]) -> tuple[T, T]:
    """Draw two distinct items, with the same result as `sample(rng, items, 2)` in half the time.

    >>> pick_two(Random(1), "abcdefgh") == tuple(sample(Random(1), "abcdefgh", 2))
    True
    """
    last = len(items) - 1
    if not 1 <= last < POOL:
        one, other = rng.sample(items, 2)
        return one, other
    bits, width = rng.getrandbits, WIDTHS[last + 1]
    at = bits(width)
    while at > last:
        at = bits(width)
    width = WIDTHS[last]
    then = bits(width)
    while then >= last:
        then = bits(width)
    # `random.sample` replaces the first drawn item with the last one.
    second = last if then == at else then
    return items[at], items[second]
