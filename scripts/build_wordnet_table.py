"""Build the English relation table that the package carries, from the official WordNet 3.0 files of
an NLTK data tree.

Run it with NLTK_DATA (or TASKLOOM_DATA) set:  python scripts/build_wordnet_table.py
"""

from __future__ import annotations

from taskloom.suites.taskbench.worlds import corpora
from taskloom.suites.taskbench.worlds.words import wordnet
from taskloom.suites.taskbench.worlds.words.wordnet import read_wordnet


def main() -> None:
    """Write the table and say what is in it."""
    net = read_wordnet(corpora.get("wordnet"))
    packed = wordnet.pack(net)
    again = wordnet.unpack(packed)
    assert (again.pos, again.lemmas, again.index, again.counts) == (
        net.pos,
        net.lemmas,
        net.index,
        net.counts,
    )
    assert {k: sorted(v) for k, v in again.links.items()} == {
        k: sorted(v) for k, v in net.links.items()
    }
    assert again.exceptions == net.exceptions
    wordnet.PACKAGED.write_bytes(packed)
    print(
        f"{wordnet.PACKAGED.name}: {len(packed):,} bytes, {len(net.pos):,} synsets,"
        f" {len(wordnet.common_words(net)):,} common words"
    )


if __name__ == "__main__":
    main()
