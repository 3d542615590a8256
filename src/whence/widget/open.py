"""From what a person has at hand to a workbench that shows it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.core.errors import BadParameter, CannotRead, CannotServe
from whence.core.types import Of
from whence.explainer import Explainer, Explanation, load
from whence.widget.desk import Desk

if TYPE_CHECKING:
    from whence.widget.cell import Workbench


def workbench(
    what: Any,
    text: Any = None,
    *,
    against: Any = None,
    method: str | Sequence[str] | None = None,
    target: Any = None,
    of: Of = "logit",
    truncate: bool = False,
    at: Any = None,
    answer: Any = None,
    labels: Sequence[str] | None = None,
    template: str | None = None,
    state: Mapping[str, Any] | None = None,
) -> "Workbench":
    """Show the workbench in a notebook: for an explanation, or for a model and a text.

    `what` is an `Explanation`, what `explain` returned for several methods, an `Explainer`, or what `whence.load`
    takes. With an explainer or a model, `text` is a text, a pair or a picture; `at`, `answer`, `labels` and
    `template` say what is asked about it, and `method` by what, as in `explain`. `against` is a second model of the
    same tokenizer, such as the one that was fine-tuned: both are compared. `state` is how the view begins.

    What is returned shows itself in a cell. Its `selection` holds the words, edges and head that are chosen there;
    its `state` is the whole view, and setting some of it moves the view.
    """
    found = _given(what)
    asked = {"at": at, "answer": answer, "labels": labels, "template": template}
    about = {name: value for name, value in asked.items() if value is not None}
    if found:
        explainer = found[0].explainer
        if explainer is None:
            raise CannotRead(
                "This explanation came without its model, which the workbench asks. Explain the text anew: "
                "whence.workbench(whence.load(...), text)."
            )
        if text is not None:
            raise BadParameter("An explanation has its text already: give one of the two.")
    else:
        explainer = _explainer(what)
        if text is None:
            raise BadParameter(
                "There is no text or picture to show. Give it: whence.workbench(explainer, text)."
            )
        # Two models are compared by what flows in them, where the first has no labels to explain.
        if explainer.loaded.classifies or (against is None and explainer.loaded.task != "none"):
            chosen = explainer.default_method() if method is None else method
            names = [chosen] if isinstance(chosen, str) else list(chosen)
            by_name = explainer.explain(
                text, method=names, target=target, of=of, truncate=truncate, **about
            )
            if not isinstance(by_name, dict):
                raise BadParameter(
                    f"The workbench shows one text or picture, and one thing about it. Got {len(by_name)}: open one "
                    "for each."
                )
            found = list(by_name.values())
    cell = _cell()
    other = None if against is None else _explainer(against)
    desk = Desk(explainer, found, text=text, about=about, other=other)
    return cell(desk, {**desk.state(), **(state or {})})


def _given(what: Any) -> list[Explanation]:
    if isinstance(what, Explanation):
        return [what]
    if isinstance(what, Mapping) and what:
        every = list(what.values())
        if all(isinstance(one, Explanation) for one in every):
            return every
    return []


def _explainer(what: Any) -> Explainer:
    if isinstance(what, Explainer):
        return what
    if not isinstance(what, str | Path) and not hasattr(what, "config"):
        raise BadParameter(
            f"A workbench cannot be opened on {str(what)[:40]!r} ({type(what).__name__}). Give an explanation, an "
            'explainer, or what whence.load takes: whence.workbench("reviews", text).'
        )
    return load(what)


def _cell() -> "type[Workbench]":
    """Import what only a notebook needs, when one is there."""
    try:
        from whence.widget.cell import Workbench
    except ImportError:
        raise CannotServe(
            "The workbench in a notebook needs another package: pip install 'whence[notebook]'."
        ) from None
    return Workbench
