"""Questions of the page, read; and what went wrong, said in the one shape."""

from collections.abc import Mapping
from typing import Any

from whence.core.errors import WhenceError
from whence.data.reading import Continuation, Entity
from whence.explainer import Explanation
from whence.flow import Classic, Query

Asked = Mapping[str, Any]


def flow(asked: Asked) -> dict[str, Any]:
    """Read a question about flows."""
    classic = asked.get("classic")
    return {
        **compared(asked),
        "residual": asked.get("residual"),
        "most": asked.get("most", 5000),
        "classic": None if classic is None else Classic(**classic),
    }


def compared(asked: Asked) -> dict[str, Any]:
    """Read which flow is meant."""
    query = asked.get("query") or {}
    layers = query.get("layers")
    return {
        "weight": asked.get("weight", "attention"),
        "direction": asked.get("direction", "back"),
        "token": asked.get("token"),
        "query": Query(
            layers=None if layers is None else (layers[0], layers[1]),
            heads=tuple((layer, head) for layer, head in query.get("heads", ())),
            tokens=tuple(query.get("tokens", ())),
            segments=tuple(query.get("segments", ())),
            least=query.get("least", 0.0),
            specials=query.get("specials", True),
        ),
    }


def text_of(explanation: Explanation) -> str:
    """Return the text, or what stands for one that came as numbers only."""
    text = explanation.source.text
    return " ".join(word.text for word in explanation.spans) if text is None else text


def target_of(explanation: Explanation) -> str | None:
    """Name the target as the page asks for it; None is what was predicted."""
    target = explanation.target
    if target.against is not None:
        return f"{target.label}:{target.against.label}"
    return None if target.index == explanation.prediction.index else target.label


def about(asked: Asked) -> dict[str, Any]:
    """Read what is asked about an input beside its target."""
    found: dict[str, Any] = {
        name: asked[name] for name in ("at", "answer", "labels", "template") if asked.get(name)
    }
    if asked.get("rather"):
        found["answer"] = (asked["answer"], asked["rather"])
    return found


def as_state(about: Asked) -> dict[str, Any]:
    """Write what was asked as the view has it; what it cannot say is left out."""
    found = {name: about[name] for name in ("template",) if about.get(name)}
    at, answer, labels = (about.get(name) for name in ("at", "answer", "labels"))
    if isinstance(at, str | int):
        found["at"] = str(at)
    if isinstance(answer, str):
        found["answer"] = answer
    elif answer:
        found["answer"], found["rather"] = answer
    if labels:
        found["labels"] = ", ".join(labels)
    return found


def recalled(explanation: Explanation | None) -> dict[str, Any]:
    """Say what was asked when an explanation was made, as far as it shows."""
    if explanation is None or explanation.item is None:
        return {}
    reading = explanation.item.reading
    if isinstance(reading, Entity):
        return {"at": reading.places}
    if isinstance(reading, Continuation):
        return {"answer": explanation.target.label}
    return {}


def given_first(explanation: Explanation | None, given: Any) -> tuple[Any, str | None]:
    """Return what the page cannot give back: an encoded input or a picture, and what to call the picture."""
    if explanation is None:
        if isinstance(given, str | tuple):
            return None, None
        return given, "picture"
    item = explanation.item
    if item is not None and item.picture is not None:
        return {"pixel_values": item.picture.pixels[None]}, item.picture.name or "picture"
    if item is not None and explanation.source.text is None:
        return {name: [list(row)] for name, row in item.features.items()}, None
    return None, None


def fault(error: BaseException) -> dict[str, str]:
    """Say what went wrong."""
    if isinstance(error, WhenceError):
        return {"code": error.code, "message": str(error), "hint": "", "see": error.page}
    if isinstance(error, KeyboardInterrupt):
        said = {"code": "interrupted", "message": "The kernel was interrupted."}
        return {**said, "hint": "Ask again.", "see": ""}
    what = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    message = f"Something went wrong inside whence ({what})."
    return {"code": "internal-error", "message": message, "hint": "Please report it.", "see": ""}
