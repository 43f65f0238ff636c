"""Reverse a list of words: the smallest sequence task, a sanity check for any learner."""

import taskloom as tl

WORDS = "amber basin cedar delta ember fable".split()


@tl.task("words/reverse", describe="Reverse the order of the words.", scorer=tl.exact)
def reverse(rng: tl.Random, length: int = tl.knob(4, low=2, high=6)) -> tl.Example:
    words = rng.sample(WORDS, length)
    return tl.Example(" ".join(words), " ".join(reversed(words)), traits={"length": length})
