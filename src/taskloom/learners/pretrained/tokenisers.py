"""Tokenisers that need no download, and the check that a tokeniser can write the answers at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from taskloom.learners.interface import LearnerError

PAD, END, UNKNOWN = "<pad>", "<end>", "<unknown>"


def words_tokeniser(texts: Iterable[str]) -> Any:
    """Build a tokeniser with one token per word of these texts; punctuation marks are tokens of their own.

    A word carries the blank before it, so that `apple,football`, `n/a` and `the dog.` come back as they were written.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    plain = normalizers.Replace(Regex(r"\s+"), " ")
    blanks: dict[str, Any] = {"replacement": "▁", "prepend_scheme": "always"}
    cut = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(**blanks), pre_tokenizers.Punctuation("isolated")]
    )
    words = sorted(
        {piece for text in texts for piece, _ in cut.pre_tokenize_str(plain.normalize_str(text))}
    )
    vocabulary = {w: i for i, w in enumerate([PAD, END, UNKNOWN, *words])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    inner.normalizer, inner.pre_tokenizer = plain, cut
    inner.decoder = decoders.Metaspace(**blanks)
    return _wrap(inner)


def bytes_tokeniser() -> Any:
    """Build a tokeniser with one token per byte: any text in any script, at the price of length."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {c: i for i, c in enumerate([PAD, END, UNKNOWN, *alphabet])}
    inner = Tokenizer(models.BPE(vocabulary, merges=[], unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return _wrap(inner)


def _wrap(inner: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=PAD, eos_token=END, unk_token=UNKNOWN
    )


def check_answers(tokeniser: Any, answers: Iterable[str], name: str) -> None:
    """Refuse a tokeniser that cannot write the answers, and say which characters it lacks."""
    lost: dict[str, str] = {}
    changed: list[tuple[str, str]] = []
    different = sorted(set(answers))
    coded = (
        tokeniser([" " + answer for answer in different], add_special_tokens=False)["input_ids"]
        if different
        else []
    )
    for answer, ids in zip(different, coded, strict=True):
        back = decode(tokeniser, ids)
        if back == " ".join(answer.split()):
            continue
        gone = [c for c in answer if not c.isspace() and c not in back]
        lost.update(dict.fromkeys(gone, answer))
        if not gone:
            changed.append((answer, back))
    if lost:
        shown = " ".join(sorted(lost)[:20])
        raise LearnerError(
            f"the tokeniser of '{name}' cannot write {len(lost)} character(s) of the answers: {shown} "
            f"(as in {next(iter(lost.values()))!r}); take another model, or leave these answers out"
        )
    if changed:
        answer, back = changed[0]
        raise LearnerError(
            f"the tokeniser of '{name}' writes {answer!r} as {back!r}; take a model that keeps it, or tokens: bytes "
            "where the model is trained from scratch"
        )


def decode(tokeniser: Any, ids: Sequence[int]) -> str:
    """Decode ids to text, without marks and superfluous blanks."""
    text: str = tokeniser.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return " ".join(text.split())
