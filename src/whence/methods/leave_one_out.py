"""Leave-one-out (erasure): fall of the target's probability without each token, and without each word."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from whence.data.batches import Batch
from whence.data.removal import Removal, list_removable_tokens, resolve_removal
from whence.methods import Scores, method, settle_removal
from whence.tracing.ask import ModelQuery


def _measure_words(
    ask: ModelQuery, batch: Batch, scores: Tensor, parameters: Mapping[str, Any]
) -> list[Tensor]:
    """Return the fall without each whole word; a word of one token reuses the token's score.

    A word that is all there is of a text cannot be deleted: its first token stays.
    """
    how = resolve_removal(parameters["remove"], ask.fillers)
    masked = []
    for item in batch.items:
        free = set(list_removable_tokens(item, ask.anchors))
        own = [[place for place in word.tokens if place in free] for word in item.words]
        sources = len(item) - len(item.answer) if how == "delete" else -1
        alone = [*range(sources)]
        masked.append([span[1:] if span == alone else span for span in own])
    queries = [[span for span in own if len(span) > 1] for own in masked]
    after = ask.without(queries, how)
    base = ask.base(of="probability")
    token_scores, word_scores = batch.unpad_values(scores), []
    for row, own in enumerate(masked):
        # A look-up for each word would be a launch for each on an accelerator: these are one for each kind of word.
        values = base.new_zeros(len(own))
        single = [number for number, span in enumerate(own) if len(span) == 1]
        several = [number for number, span in enumerate(own) if len(span) > 1]
        values[single] = token_scores[row].to(base)[[own[number][0] for number in single]]
        # Without queries the fall has the logits' type.
        values[several] = (base[row] - after[row]).to(values)
        word_scores.append(values)
    return word_scores


@method(
    "leave_one_out",
    family="perturbation",
    needs=set(),
    signed=True,
    unit="output",
    settle=settle_removal,
    of="probability",
    calls=lambda tokens, _: tokens,
    words="mean",
    measure_words=_measure_words,
    cite="Li, Monroe & Jurafsky 2016, arXiv:1612.08220",
    formula="s_j = p(y | x) - p(y | x without token j)",
    cost="n + 1 forwards for n tokens, and one for each word of several",
    misleads_when="the model never saw text with a hole in it, or two tokens say the same and each can be spared",
)
def leave_one_out(ask: ModelQuery, batch: Batch, *, remove: Removal | None = None) -> Scores:
    """Remove each token in turn and measure the fall of the target's probability.

    Falls do not add up: what a word of several tokens counts for is measured without the whole word.
    A token without which the model is undefined (the end of sequence of a BART or T5 classifier, the token with which
    a decoder starts) cannot be removed; its score is 0.
    """
    how = resolve_removal(remove, ask.fillers)
    places = [list_removable_tokens(item, ask.anchors) for item in batch.items]
    after = ask.without([[(place,) for place in own] for own in places], how)
    base = ask.base(of="probability")
    parts = [base.new_zeros(len(item)) for item in batch.items]
    for row, own in enumerate(places):
        parts[row][own] = base[row] - after[row]
    return batch.pad_values(parts)
