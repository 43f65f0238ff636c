"""An independent checker of CTL++ expressions: the paper's rules, word by word, sharing no code
with the package.
"""

from __future__ import annotations

from itertools import pairwise


def evaluate(functions: dict[str, list[int]], words: list[str]) -> list[int]:
    """The values after each function; `words` are in order of application, the symbol first."""
    value = int(words[0])
    trace = [value]
    for name in words[1:]:
        value = functions[name][value]
        trace.append(value)
    return trace


def follows(
    kind: str,
    groups: dict[str, list[str]],
    allowed: dict[tuple[str, str], set[int]],
    words: list[str],
    trace: list[int],
) -> bool:
    """Whether a chain obeys a sampling rule: `same`, `alternate`, `seen` (S training), `cross` (S
    test), `any`, `overlap`.
    """
    chain = [next(g for g, members in groups.items() if name in members) for name in words[1:]]
    if kind == "any":
        return True
    if kind == "same":
        return len(set(chain)) == 1
    if kind == "alternate":
        return all(a != b for a, b in pairwise(chain))
    if len(chain) % 2:
        return False
    for i in range(0, len(chain), 2):
        first, second, name, symbol = chain[i], chain[i + 1], words[i + 2], trace[i + 1]
        if first not in ("a1", "b1"):
            return False
        path = first[0]
        own = second == path + "2"
        cross = second == ("b" if path == "a" else "a") + "2"
        shared = second == "o"
        good = {
            "seen": own or (shared and symbol in allowed[first, name]),
            "cross": cross,
            "overlap": shared,
            "unseen-symbols": shared and symbol not in allowed[first, name],
            "unseen": cross or (shared and symbol not in allowed[first, name]),
            "stages": own or cross or shared,
        }[kind]
        if not good:
            return False
    return True
