"""Which class two models are explained for on one input: the same one, so that their scores can be compared."""

from collections.abc import Callable

from whence.comparison.words import listed
from whence.core.errors import InputError, RequestError, WhenceError
from whence.explainer import Explanation, Inside

Warned = dict[str, str]


def aim(a: Inside, b: Inside) -> str | None:
    """Return the label to ask the first model about, where that is not what it predicts itself.

    Both are asked about what the second predicts. None: the first predicts the same, or has no such label.
    """
    one, other = a.prediction, b.prediction
    if one is None or other is None or one.label == other.label or not _alike(a, b):
        return None
    return other.label


def aims_apart(a: Inside, b: Inside) -> list[Warned]:
    """Say so where the models have no class in common, and each is explained for its own prediction."""
    if a.prediction is None or b.prediction is None or _alike(a, b):
        return []
    labels = f"{listed(a.loaded.labels)}; {listed(b.loaded.labels)}"
    return [
        {
            "code": "other-labels",
            "message": f"The models have different labels or tasks ({labels}): each is explained for what it "
            "predicts itself, and the scores of the one say nothing about those of the other.",
        }
    ]


def tried(
    name: str, method: str, explain: Callable[[], Explanation], warnings: list[Warned]
) -> Explanation | None:
    """Explain; where the model cannot be explained so, add a warning, for the rest can be shown all the same."""
    try:
        return explain()
    except (InputError, RequestError):
        raise
    except WhenceError as error:
        message = f"{name} could not be explained by {method}: {error}"
        warnings.append({"code": error.code, "message": message})
        return None


def _alike(a: Inside, b: Inside) -> bool:
    one, other = a.loaded, b.loaded
    return tuple(one.labels) == tuple(other.labels) and one.task == other.task
