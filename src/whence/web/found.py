"""What a tagger found in a text: each such thing can be asked about by its number."""

from typing import TYPE_CHECKING, Any

from whence.core.errors import BadParameter

if TYPE_CHECKING:
    from whence.web.models import Model
    from whence.web.schema.base import Input


def is_every(model: "Model", asked: "Input") -> bool:
    """Say whether it is about everything that a tagger finds, rather than one place."""
    return model.explainer().loaded.task == "tags" and asked.at is None


def entities(model: "Model", asked: "Input") -> list[Any]:
    """Return what a tagger found, where it was asked about no one place."""
    if not is_every(model, asked):
        return []
    return list(model.explainer().entities(model.taken(asked), truncate=asked.truncate))


def numbered(asked: "Input", every: list[Any]) -> Any:
    """Return the one that is asked about."""
    number = asked.entity or 0
    if number >= len(every):
        raise BadParameter(
            f"There is no entity {number}: the model found {len(every)} in this text. They count from 0."
        )
    return every[number]
