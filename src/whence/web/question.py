"""From a request to what an explainer takes: the input itself, and what is asked about it."""

from typing import TYPE_CHECKING, Any

from whence.core.errors import BadParameter
from whence.web.pictures import Pictures
from whence.web.schema.base import Input

if TYPE_CHECKING:
    from whence.models import Loaded


def given(asked: Input, loaded: "Loaded", pictures: Pictures) -> Any:
    """Return what is explained: a picture, a text, or both of a pair."""
    if not loaded.sees and asked.picture is not None:
        raise BadParameter(
            f"picture={asked.picture!r} means nothing to {type(loaded.model).__name__}, which reads texts. Leave it "
            "out."
        )
    # A text in the place of a picture would be taken for the path of one.
    if loaded.sees and asked.picture is None:
        raise BadParameter(
            f"{type(loaded.model).__name__} looks at pictures, and got none. Bring one in: PUT /api/pictures."
        )
    if asked.picture is not None and not _is_beside(asked, loaded):
        return pictures.get(asked.picture)
    return asked.text if asked.pair is None else (asked.text, asked.pair)


def about(asked: Input, loaded: "Loaded", pictures: Pictures) -> dict[str, Any]:
    """Return what is asked about it; what does not fit the model's task the explainer refuses."""
    found: dict[str, Any] = {
        "target": asked.target,
        "of": asked.of,
        "truncate": asked.truncate,
        "at": _place(asked.at),
        "labels": asked.labels or None,
        "template": asked.template,
        "answer": asked.answer,
    }
    if asked.rather is not None:
        if asked.answer is None:
            raise BadParameter("There is no answer to hold against the other. Give both.")
        found["answer"] = (asked.answer, asked.rather)
    if asked.picture is not None and _is_beside(asked, loaded):
        found["image"] = pictures.get(asked.picture)
    return found


def key(asked: Input) -> tuple[Any, ...]:
    """Return what tells inputs of one model apart."""
    own = asked.model_dump(exclude={"model", "labels"})
    return (*own.values(), None if asked.labels is None else tuple(asked.labels))


def _is_beside(asked: Input, loaded: "Loaded") -> bool:
    """Say whether a text is explained that is held against a picture, rather than the picture itself."""
    return loaded.task == "similarity" and not asked.labels and asked.text.strip() != ""


def _place(at: str | None) -> int | str | None:
    return int(at) if at is not None and at.isascii() and at.isdigit() else at
