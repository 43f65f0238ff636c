"""WordNet's morphology: from an inflected form to base forms.

Exception lists first, then the detachment rules, applied again and again until a form is known.
This is the rule of WordNet's own `morphy` as the reference relied on it; later versions of NLTK
apply the rules only once and lose a few words (611 instead of 616 with entailments), so the rule is
spelt out here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

POS = "nvar"
"""Nouns, verbs, adjectives, adverbs: the order in which WordNet lists senses."""

_RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "n": (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "v": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}

ENDINGS = {pos: tuple(old for old, _ in rules) for pos, rules in _RULES.items()}
"""The endings that a rule of a part of speech may detach."""


def bases(
    form: str, pos: str, known: Collection[str], exceptions: Mapping[str, list[str]]
) -> list[str]:
    """Return the known base forms of a lower-case form for one part of speech, the form itself
    first.

    Args:
        form: The form.
        pos: One of n, v, a, r.
        known: All base forms of that part of speech.
        exceptions: Irregular forms of that part of speech with their base forms.
    """
    if form in exceptions:
        return _known([form, *exceptions[form]], known)
    if not form.endswith(ENDINGS[pos]):
        return [form] if form in known else []
    forms = _detach([form], pos)
    listed = _known([form, *forms], known)
    while forms and not listed:
        forms = _detach(forms, pos)
        listed = _known(forms, known)
    return listed


def _detach(forms: list[str], pos: str) -> list[str]:
    detached = []
    for form in forms:
        for old, new in _RULES[pos]:
            if form.endswith(old):
                detached.append(form.removesuffix(old) + new)
    return detached


def _known(forms: list[str], known: Collection[str]) -> list[str]:
    return [f for f in dict.fromkeys(forms) if f in known]
