"""Apply list functions one after another: training never reverses a list right after sorting it, the split ood always does."""

from itertools import pairwise

import taskloom as tl

WORDS = "amber basin cedar delta ember fable grove haven".split()
FUNCTIONS = {
    "reverse": lambda words: words[::-1],
    "sort": sorted,
    "rotate": lambda words: words[1:] + words[:1],
    "swap": lambda words: [words[-1], *words[1:-1], words[0]],
}


def reverses_what_was_sorted(derivation: tuple[tl.Step, ...]) -> bool:
    rules = [step.rule for step in derivation]
    return ("sort", "reverse") in pairwise(rules)


@tl.task(
    "lists/functions",
    describe="Apply the functions, the last one first.",
    held_out=reverses_what_was_sorted,
)
def functions(
    rng: tl.Random, depth: int = tl.knob(3, low=2, high=6), length: int = tl.knob(4, low=2, high=6)
) -> tl.Example:
    words = rng.sample(WORDS, length)
    names = rng.choices(list(FUNCTIONS), k=depth)
    steps, result = [], words
    for name in names:
        function = FUNCTIONS[name]
        result = function(result)
        steps.append(tl.Step(name, " ".join(result)))
    text = f"{' '.join(reversed(names))}: {' '.join(words)}"
    return tl.Example(text, " ".join(result), traits={"depth": depth}, derivation=steps)
