"""Examples as token ids: the model's input, and every acceptable answer."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.core.seeding import Key
from taskloom.learners.interface import LearnerError
from taskloom.learners.pretrained.models import UNKNOWN, Base


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Token ids of a split. `targets` has all acceptable answers of each example, the official one
    first.
    """

    sources: list[list[int]]
    targets: list[list[list[int]]]
    examples: list[Example]

    def __len__(self) -> int:
        return len(self.sources)

    def lengths(self) -> list[int]:
        """Number of tokens of each source with its longest answer, used to form batches of rows of
        similar length.
        """
        return [len(s) + max(map(len, t)) for s, t in zip(self.sources, self.targets, strict=True)]


Cut = Literal["end", "start"]
"""The end of a long input that is cut off."""

Targets = Literal["redrawn", "fixed", "first", "listed"]
"""Which of several acceptable answers to train on."""

ENCODED_AT_ONCE = 4_096
"""Maximum inputs of one call of the tokeniser. A call uses all cores, and its result takes much
more memory than the ids alone.
"""


def read_source(base: Base, text: str, join: str, longest: int = 0, cut: Cut = "end") -> list[int]:
    """Encode an input so that an answer can follow. With `longest`, it is cut to that many tokens,
    including `join` and special tokens.
    """
    return read_sources(base, [text], join, longest, cut)[0]


def read_sources(
    base: Base, texts: Sequence[str], join: str, longest: int = 0, cut: Cut = "end"
) -> list[list[int]]:
    """Encode several inputs; see `read_source`."""
    if longest:
        texts = [_shorten(base, text, join, longest, cut) for text in texts]
    sources: list[list[int]] = []
    for first in range(0, len(texts), ENCODED_AT_ONCE):
        sources += _encode_sources(base, texts[first : first + ENCODED_AT_ONCE], join)
    return sources


def _shorten(base: Base, text: str, join: str, longest: int, cut: Cut) -> str:
    """Cut whole tokens off a text until it fits."""
    while (excess := len(_encode_sources(base, [text + join], "")[0]) - longest) > 0:
        try:
            encoded = base.tokeniser(
                text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
        except NotImplementedError:
            raise LearnerError(
                f"the tokeniser of '{base.name}' does not give the positions of its tokens, so"
                " inputs cannot be cut; set longest_input to 0"
            ) from None
        offsets = encoded["offset_mapping"]
        if excess >= len(offsets):
            raise LearnerError(
                f"longest_input is {longest}, which leaves no room for an input; raise it"
            )
        if cut == "end":
            text = text[: offsets[-excess][0]].rstrip()
        else:
            text = text[offsets[excess][0] :].lstrip()
    return text


def _encode_sources(base: Base, texts: Sequence[str], join: str) -> list[list[int]]:
    marks = base.kind == "encoder-decoder"
    # Inputs that are too long get our own error with a remedy, so the tokeniser need not warn.
    coded = base.tokeniser(
        [text + join for text in texts], add_special_tokens=marks, verbose=False
    )["input_ids"]
    sources = [list(ids) for ids in coded]
    end = base.tokeniser.eos_token_id
    for text, ids in zip(texts, sources, strict=True):
        if marks and (not ids or ids[-1] != end):
            ids.append(end)
        if base.begin and tuple(ids[: len(base.begin)]) != base.begin:
            ids[:0] = base.begin  # a chat template may have written the token already
        if base.tokeniser.unk_token == UNKNOWN and base.tokeniser.unk_token_id in ids:
            raise InputError(
                f"the word {_unknown(base, text + join)!r} of the input {text[:60]!r} is not "
                f"among the words of '{base.name}', which come from the splits that it was built "
                "for; fit it with a split that has the word, or set tokens: bytes"
            )
        if not ids:
            raise InputError(
                f"the input {text!r} is empty for '{base.name}', which needs at least one token "
                "to begin from; set join"
            )
    return sources


def _unknown(base: Base, text: str) -> str:
    """Return the first word of a text that is not in the vocabulary."""
    encoded = base.tokeniser(
        text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
    )
    position = list(encoded["input_ids"]).index(base.tokeniser.unk_token_id)
    first, last = encoded["offset_mapping"][position]
    return text[first:last].strip()


def read_targets(base: Base, texts: Iterable[str]) -> dict[str, list[int]]:
    """Encode answers with their end token, each with a leading space that separates it from the
    input.

    Each distinct answer is encoded once, and all of them in one call, which is much faster than one
    by one.
    """
    different = list(dict.fromkeys(texts))
    if not different:
        return {}
    coded = base.tokeniser([" " + text for text in different], add_special_tokens=False)[
        "input_ids"
    ]
    return {
        text: [*ids, base.tokeniser.eos_token_id]
        for text, ids in zip(different, coded, strict=True)
    }


def read_rows(
    base: Base,
    examples: Sequence[Example],
    join: str,
    prompt: int = 0,
    answer: int = 0,
    longest: int = 0,
    cut: Cut = "end",
    cut_answers: bool = False,
) -> EncodedRows:
    """Encode examples. Raise an error for an example that is longer than the model can read.

    Args:
        base: The model.
        examples: The examples.
        join: Separator between an input and its answer.
        prompt: Number of prompt vectors before every input.
        answer: Maximum tokens of an answer.
        longest: Maximum tokens of an input. Longer inputs are cut, with a warning. With 0, no input
            is cut.
        cut: Which end of a longer input is cut off.
        cut_answers: Cut answers that are too long, with a warning. Otherwise they are refused.
    """
    if longest:
        _warn_of_cuts(base, examples, join, longest)
    targets = read_targets(base, (t for e in examples for t in e.targets))
    if cut_answers:
        targets = _cut_answers(base, targets, answer)
    rows = EncodedRows(
        read_sources(base, [e.input for e in examples], join, longest, cut),
        [[targets[t] for t in e.targets] for e in examples],
        list(examples),
    )
    if answer:
        _check_answers_fit(rows, answer)
    needed = _tokens_needed(base, rows, answer)
    worst = max(range(len(needed)), key=needed.__getitem__)
    if needed[worst] + prompt > base.longest:
        raise LearnerError(
            f"an example needs {needed[worst] + prompt} tokens and '{base.name}' reads at most"
            f" {base.longest}: {examples[worst].input[:60]!r}…; shorten the inputs, lower"
            " longest_answer, or take a model with a longer context"
        )
    return rows


def _tokens_needed(base: Base, rows: EncodedRows, answer: int) -> list[int]:
    """Tokens that the model must hold for each row, including up to `answer` generated ones."""
    sources = [len(source) for source in rows.sources]
    if base.kind == "decoder":  # a decoder reads the answer after the source
        pairs = zip(rows.lengths(), sources, strict=True)
        return [max(whole, source + answer) for whole, source in pairs]
    if getattr(base.model.config, "max_position_embeddings", None):
        # BART's decoder has a limited number of positions, too. T5's positions are relative.
        longest_targets = [max(map(len, targets)) for targets in rows.targets]
        return [max(s, answer, t) for s, t in zip(sources, longest_targets, strict=True)]
    return sources  # an encoder reads the source alone


def _warn_of_cuts(base: Base, examples: Sequence[Example], join: str, longest: int) -> None:
    cut = sum(
        len(ids) > longest for ids in _encode_sources(base, [e.input for e in examples], join)
    )
    if cut:
        warnings.warn(
            f"{cut:,} of {len(examples):,} inputs are cut to {longest} tokens (longest_input)",
            stacklevel=3,
        )


def _cut_answers(base: Base, targets: dict[str, list[int]], most: int) -> dict[str, list[int]]:
    """Cut encoded answers to `most` tokens. The end token is kept, so that a model learns to
    stop.
    """
    end = base.tokeniser.eos_token_id
    cut: dict[str, list[int]] = {}
    for text, ids in targets.items():
        tokens = ids[:-1]
        if len(tokens) > most:
            cut[text] = [*tokens[:most], end]
    if cut:
        warnings.warn(
            f"{len(cut):,} of {len(targets):,} answers are cut to {most} tokens (longest_answer)",
            stacklevel=3,
        )
    return {**targets, **cut}


def _check_answers_fit(rows: EncodedRows, most: int) -> None:
    """Raise an error for answers that generation would cut off. The end token need not fit."""
    needed = [min(map(len, targets)) - 1 for targets in rows.targets]
    worst = max(range(len(needed)), key=needed.__getitem__)
    if needed[worst] > most:
        example = rows.examples[worst]
        raise LearnerError(
            f"an answer has {needed[worst]:,} tokens and at most {most} are generated:"
            f" {example.target[:60]!r}… to {example.input[:60]!r}; raise longest_answer,"
            " or set cut_answers to true"
        )


def choose_targets(rows: EncodedRows, how: Targets, key: Key) -> EncodedRows:
    """Select the answers to train on: all of them (one is drawn at each step), one that is drawn
    once, or the official one.

    Rows whose answers are `listed` already have a single answer.
    """
    if how in ("redrawn", "listed"):
        return rows
    chosen = []
    for row, answers in enumerate(rows.targets):
        answer = answers[0]
        if how == "fixed" and len(answers) > 1:
            answer = key.random("fixed", row).choice(answers)
        chosen.append([answer])
    return EncodedRows(rows.sources, chosen, rows.examples)


def draw_targets(rows: EncodedRows, chosen: Sequence[int], key: Key, step: int) -> list[list[int]]:
    """Draw one acceptable answer for each chosen row, uniformly, as a function of the key, the step
    and the row.
    """
    drawn = []
    for row in chosen:
        answers = rows.targets[row]
        if len(answers) == 1:  # most rows have a single answer, and a draw costs a hash
            drawn.append(answers[0])
        else:
            drawn.append(key.random("target", step, int(row)).choice(answers))
    return drawn
