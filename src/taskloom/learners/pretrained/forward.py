"""Forward passes of a language model: losses per example, optionally with tuned prompts.

In a causal model, the states of a prompt do not depend on the tokens after it. So the prompt of
each task is run once per step, and all examples of the task share its keys and values. Examples of
many tasks go through the frozen model in one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from taskloom.learners.accelerated.llama import Shortcuts, can_follow, logits_at
from taskloom.learners.pretrained.models import Base

IGNORED = -100


@dataclass(frozen=True, slots=True)
class Batch:
    """Right-padded rows.

    Attributes:
        ids: Input ids (for a decoder, followed by the target).
        mask: 1 at real tokens.
        labels: [batch, K] the target tokens of each row, padded with `IGNORED`.
        where: [batch, K] for a decoder, the positions that predict the labels.
    """

    ids: Tensor
    mask: Tensor
    labels: Tensor
    where: Tensor | None = None

    def to(self, device: torch.device) -> Batch:
        """Copy the batch to another device."""
        return Batch(*(None if t is None else send(t, device) for t in self.tensors()))  # type: ignore[arg-type]

    def rows(self, chosen: Tensor) -> Batch:
        """Select some of the rows."""
        return Batch(*(None if t is None else t[chosen] for t in self.tensors()))  # type: ignore[arg-type]

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Tensors in the order of the attributes."""
        return self.ids, self.mask, self.labels, self.where


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device. For a GPU it is pinned first, so that the CPU does not wait for
    the copy.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def collate(
    base: Base,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    multiple: int = 1,
) -> Batch:
    """Pad rows to equal width. With `multiple`, widths are rounded up so that few shapes occur;
    large widths are rounded more coarsely.
    """
    decoder = base.kind == "decoder"
    if decoder:
        rows = [[*source, *target] for source, target in zip(sources, targets, strict=True)]
    else:
        rows = [list(source) for source in sources]
    width, most = max(map(len, rows)), max(map(len, targets))
    if multiple > 1:
        width, most = rounded_width(width, multiple), rounded_length(most, multiple)
    ids, mask = _padded(rows, width, int(base.tokeniser.pad_token_id))
    labels, _ = _padded(targets, most, IGNORED)
    if not decoder:
        return Batch(ids, mask, labels)
    # The first target token is predicted at the last position of the source, and so on.
    at = torch.arange(most)[None, :] + torch.tensor([[len(s) - 1] for s in sources])
    return Batch(ids, mask, labels, at.clamp(0, width - 1))


def rounded_width(width: int, multiple: int) -> int:
    """Round up to a multiple. From eight multiples on, the multiple is a quarter of the next lower
    power of two, which gives four widths per octave.

    >>> [rounded_width(n, 8) for n in (3, 63, 130, 257)]
    [8, 64, 160, 320]
    """
    step = max(multiple, (1 << (width.bit_length() - 1)) // 4)
    return -(-width // step) * step


def rounded_length(length: int, least: int) -> int:
    """Round up to a power of two, at least `least`, because the lengths of targets vary more than
    their cost.

    >>> [rounded_length(n, 8) for n in (3, 8, 9, 70)]
    [8, 8, 16, 128]
    """
    return max(least, 1 << (length - 1).bit_length())


def _padded(rows: Sequence[Sequence[int]], width: int, filler: int) -> tuple[Tensor, Tensor]:
    """Return rows as one padded matrix, and a mask that is 1 at real tokens."""
    lengths = np.array([len(row) for row in rows])
    real = np.arange(width)[None, :] < lengths[:, None]
    out = np.full((len(rows), width), filler, dtype=np.int64)
    out[real] = np.fromiter(
        (i for row in rows for i in row), dtype=np.int64, count=int(lengths.sum())
    )
    return torch.from_numpy(out), torch.from_numpy(real.astype(np.int64))


def losses(
    base: Base,
    batch: Batch,
    prompts: Tensor | None = None,
    tasks: Tensor | None = None,
    fast: Shortcuts = Shortcuts(),  # noqa: B008 - immutable
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the summed cross entropy of each example, its number of target tokens, and whether
    each of them is the likeliest token.

    Args:
        base: The model.
        batch: The examples.
        prompts: [tasks, n, d] prompt vectors before the inputs.
        tasks: [batch] index of each example's prompt. Not needed for a single task.
        fast: Options for faster computation, for models whose layers are implemented here.
        smoothing: Share of a target token's probability that is spread over the vocabulary.
    """
    if prompts is not None and tasks is None:
        tasks = _first(batch.ids)
    if base.kind == "decoder" and can_follow(base.model):
        assert batch.where is not None
        logits = logits_at(base.model, batch.ids, batch.where, prompts, tasks, fast)
    else:
        passes = {"decoder": _decoder, "encoder-decoder": _encoder_decoder, "pointer": _pointer}
        logits = passes[base.kind](base, batch, prompts, tasks)
    judge = fast.wrap(_judged) if fast.wrap else _judged
    each, right = judge(logits, batch.labels, smoothing)
    return each, (batch.labels != IGNORED).sum(1), right


def _judged(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """Compute the summed cross entropy of each row, and whether all of its targets are the
    likeliest tokens.
    """
    flat = logits.float().flatten(0, 1)
    each = F.cross_entropy(
        flat, labels.flatten(), ignore_index=IGNORED, reduction="none", label_smoothing=smoothing
    )
    right = ((logits.detach().argmax(-1) == labels) | (labels == IGNORED)).all(1)
    return each.view(labels.shape).sum(1), right


def _decoder(base: Base, batch: Batch, prompts: Tensor | None, tasks: Tensor | None) -> Tensor:
    """Compute logits, but only at the positions that predict a target, because the output map is
    the widest layer.

    Padding is on the right, so only future positions need a mask: no token of a causal model
    attends to the padding.
    """
    model = base.model
    given: dict[str, Any] = {"input_ids": batch.ids, "use_cache": prompts is not None}
    if prompts is not None:
        assert tasks is not None
        given["past_key_values"] = prompt_states(base, prompts, tasks)
    before = 0 if prompts is None else prompts.shape[1]
    if model.config.model_type == "llama":
        # The mask is precomputed. Otherwise transformers would choose one by inspecting values on
        # the device, and would have to wait for them.
        given["attention_mask"] = _causal(batch.ids.shape[1], before, _dtype(base), batch.ids)
    else:
        # Masking the padding changes nothing, but without it transformers warns.
        seen = batch.mask.new_ones(len(batch.mask), before)
        given["attention_mask"] = torch.cat([seen, batch.mask], 1)
    assert batch.where is not None
    wide = batch.where.unsqueeze(-1)
    if not plain(model):
        logits: Tensor = model(**given).logits
        return logits.gather(1, wide.expand(-1, -1, logits.shape[-1]))
    states = model.model(**given).last_hidden_state
    output: Tensor = model.get_output_embeddings()(
        states.gather(1, wide.expand(-1, -1, states.shape[-1]))
    )
    return output


def _causal(length: int, before: int, kind: torch.dtype, like: Tensor) -> Tensor:
    """Causal mask [1, 1, length, before + length]: 0 for visible positions, minus infinity for
    later ones.
    """
    at = torch.arange(before + length, device=like.device)
    later = at[None, :] > at[before:, None]
    mask = torch.zeros(later.shape, dtype=kind, device=like.device).masked_fill(later, -torch.inf)
    return mask[None, None]


def plain(model: Any) -> bool:
    """True if logits are just the output map of the last states, without scaling or capping."""
    kind = getattr(model.config, "model_type", "")
    uncapped = getattr(model.config, "final_logit_softcapping", None) is None
    return kind == "llama" or (kind == "gemma3_text" and uncapped)


def _first(ids: Tensor) -> Tensor:
    """Return the first prompt for each row."""
    return torch.zeros(len(ids), dtype=torch.long, device=ids.device)


def prompt_states(base: Base, prompts: Tensor, tasks: Tensor) -> Any:
    """Return keys and values of the prompts, computed once per task and expanded to each example of
    the task.
    """
    from transformers import DynamicCache

    run = base.model.model if plain(base.model) else base.model
    cache = run(inputs_embeds=prompts.to(_dtype(base)), use_cache=True).past_key_values
    shared = DynamicCache()
    for i, layer in enumerate(cache.layers):
        shared.update(layer.keys.index_select(0, tasks), layer.values.index_select(0, tasks), i)
    return shared


def _dtype(base: Base) -> torch.dtype:
    kind: torch.dtype = base.model.get_input_embeddings().weight.dtype
    return kind


def with_prompts(
    base: Base, ids: Tensor, mask: Tensor, prompts: Tensor, tasks: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return input vectors and mask with each example's prompt before its tokens (after left
    padding).
    """
    vectors = base.model.get_input_embeddings()(ids)
    before = prompts[_first(ids) if tasks is None else tasks].to(vectors.dtype)
    mask_before = mask.new_ones(len(mask), prompts.shape[1])
    return torch.cat([before, vectors], 1), torch.cat([mask_before, mask], 1)


def _encoder_decoder(
    base: Base, batch: Batch, prompts: Tensor | None, tasks: Tensor | None
) -> Tensor:
    if prompts is None:
        given = {"input_ids": batch.ids, "attention_mask": batch.mask}
    else:
        vectors, mask = with_prompts(base, batch.ids, batch.mask, prompts, tasks)
        given = {"inputs_embeds": vectors, "attention_mask": mask}
    logits: Tensor = base.model(**given, labels=batch.labels).logits
    return logits


def _pointer(base: Base, batch: Batch, prompts: Tensor | None, tasks: Tensor | None) -> Tensor:
    """Compute logits [batch, K, positions] of start and end, minus infinity outside the context.
    Further labels are ignored.
    """
    first, last = point(base, batch.ids, batch.mask)[:2]
    rest = [torch.zeros_like(first)] * (batch.labels.shape[1] - 2)
    return torch.stack([first, last, *rest], 1)


def point(
    base: Base, ids: Tensor, mask: Tensor, states: bool = False
) -> tuple[Tensor, Tensor, Any]:
    """Compute logits of start and end, minus infinity outside the context, and optionally the
    states of all layers.

    An input is the question, separators, the context, and a separator. The context starts after the
    first separators.
    """
    separator = ids == base.tokeniser.sep_token_id
    after = separator.cumsum(1) > 0
    given: dict[str, Any] = {
        "input_ids": ids,
        "attention_mask": mask,
        "output_hidden_states": states,
    }
    has_types = getattr(base.model.config, "type_vocab_size", 0) > 1
    if "token_type_ids" in base.tokeniser.model_input_names and has_types:
        # Segment ids as in BERT's training: 0 up to and including the first separator, 1 after it.
        first_separator = separator & (separator.cumsum(1) == 1)
        given["token_type_ids"] = (after & ~first_separator).long()
    output = base.model(**given)
    outside = ~after | separator | (mask == 0)
    first, last = (
        x.float().masked_fill(outside, -torch.inf) for x in (output.start_logits, output.end_logits)
    )
    return first, last, output.hidden_states if states else None
