"""Removing a token is one decision, made here: delete it, or put a mask, padding or unknown token in its place."""

from collections.abc import Mapping
from typing import Literal, get_args

from whence.core.errors import BadParameter
from whence.data.encode import Encoded

Removal = Literal["mask", "delete", "pad", "unk"]


def resolve(how: Removal | None, fillers: Mapping[str, int]) -> Removal:
    """Return the way of removal: the one asked for, if this model has it; else mask before delete."""
    if how is None:
        return "mask" if "mask" in fillers else "delete"
    if how != "delete" and how not in fillers:
        possible = [name for name in get_args(Removal) if name == "delete" or name in fillers]
        raise BadParameter(
            f"remove={how!r} needs a {how} token, and this model's tokenizer has none. "
            f"Possible here: {', '.join(possible)}."
        )
    return how


def without(item: Encoded, index: int, how: Removal, fillers: Mapping[str, int]) -> Encoded:
    """Return `item` with token `index` removed."""
    if how == "delete":
        if len(item) == 1:
            raise BadParameter(
                "remove='delete' would leave nothing of an input of one token. Use 'mask', 'pad' or 'unk'."
            )
        features = {
            name: values[:index] + values[index + 1 :] for name, values in item.features.items()
        }
    else:
        filled = (*item.ids[:index], fillers[how], *item.ids[index + 1 :])
        features = {**item.features, "input_ids": filled}
    # What is left is for the model, not for a person: tokens and words would no longer fit.
    return Encoded(features, (), (), item.source)
