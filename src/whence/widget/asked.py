"""Questions of the page, read; and what went wrong, said in the one shape."""

from collections.abc import Mapping
from typing import Any

from whence.core.errors import WhenceError
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
