"""The input that an explanation is of: kept with it, or, of one that was read from a file, made again."""

from dataclasses import replace

import numpy as np

from whence.core.errors import BadParameter, CannotRead
from whence.data import Encoded
from whence.data.reading import Column
from whence.data.text.continuation import grown
from whence.explainer.aims.mask import without_masks
from whence.explainer.aims.next import begun
from whence.explainer.aims.rather import SAID
from whence.explainer.explanation import Explanation
from whence.explainer.intake import take, take_pair
from whence.models import Loaded, fingerprint

_ANEW = "Explain the input anew and test that."


def item_of(explanation: Explanation, loaded: Loaded) -> Encoded:
    """Return the input that an explanation is of, if it is one of this model's."""
    made, here = explanation.model.get("fingerprint"), fingerprint(loaded.model)
    if made != here:
        raise BadParameter(
            f"The explanation is of the model {explanation.model.get('name')!r} ({made}), not of {loaded.name!r} "
            f"({here}). Give the model that it was made with."
        )
    scores = explanation.scores
    if scores.shape != (len(explanation.tokens),) or not np.isfinite(scores).all():
        raise BadParameter(
            f"An explanation to test must have one finite score for each of its {len(explanation.tokens)} tokens. "
            f"Its scores are {scores.shape} with {int((~np.isfinite(scores)).sum())} that are not finite."
        )
    if explanation.provenance.get("contrast") == SAID:
        raise BadParameter(
            f"This is {SAID}: no model takes both at once, so it can be neither tested nor looked into. Explain each "
            "answer by itself: answer='...'."
        )
    return explanation.item or _made_again(explanation, loaded)


def _made_again(explanation: Explanation, loaded: Loaded) -> Encoded:
    """Encode what a file tells of an input as it was, and read the model where it was read."""
    if explanation.shown is not None:
        raise CannotRead(
            "The file holds the picture as people see it, not the numbers that the model was given. Explain the "
            "picture anew and test that."
        )
    if explanation.source.text is None:
        raise CannotRead(
            f"The explanation holds no text, so its input cannot be made again. {_ANEW}"
        )
    reading, columns = explanation.reading, explanation.columns
    if reading is None and not loaded.classifies:
        raise CannotRead(
            f"The explanation does not say all of how {type(loaded.model).__name__} was read. {_ANEW}"
        )
    item = _encoded(explanation, loaded)
    if item.tokens != explanation.tokens:
        raise CannotRead(
            f"The tokenizer makes {len(item.tokens)} tokens of the text that are not the explanation's "
            f"{len(explanation.tokens)}. Give the tokenizer that it was made with."
        )
    length = len(item.answer) or len(item)
    if reading is not None and not all(-length <= place < length for place in reading.places):
        raise CannotRead(f"The model was read at tokens that are not there. {_ANEW}")
    return replace(item, reading=reading, labels=columns)


def _encoded(explanation: Explanation, loaded: Loaded) -> Encoded:
    source = explanation.source
    assert source.text is not None
    if loaded.task in ("next", "sequence"):
        prompt = sum(token.segment == 0 for token in explanation.tokens)
        # Where a prompt was cut, it may have been to leave room for an answer.
        room = replace(loaded, max_length=prompt) if source.dropped else loaded
        (item,), _ = take(source.text, room, truncate=True)
        start = begun(item, loaded)
        return grown(start, explanation.tokens[len(start) :], source.pair)
    if source.pair is None:
        (item,), _ = take(source.text, loaded, truncate=True)
    elif isinstance(explanation.reading, Column):
        item = take_pair((source.text, source.pair), loaded, truncate=True, cut="only_first")
    else:
        (item,), _ = take((source.text, source.pair), loaded, truncate=True)
    mask = loaded.fillers.get("mask") if loaded.task == "mask" else None
    return item if mask is None else without_masks(item, mask)
