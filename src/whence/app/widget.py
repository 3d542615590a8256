"""What the page asks, answered in the kernel: the same questions and answers as over HTTP, for one or two models."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from whence._version import __version__
from whence.core.errors import BadParameter, UnknownModel, WhenceError, short
from whence.explainer import Explainer, Explanation, Inside
from whence.explainer.kept.told import told
from whence.explainer.offers import offers
from whence.report import fragment
from whence.report.comparison.one import one_fragment
from whence.view import merge
from whence.widget import asked as read
from whence.widget.asked import Asked, target_of, text_of

Progress = Callable[[int, int], None]
_KEPT = 6  # insides; each may hold all maps of an input


class Desk:
    """One model and a text, or two models; what was asked once is not computed again."""

    def __init__(
        self,
        explainer: Explainer,
        explanations: Sequence[Explanation],
        *,
        text: Any = None,
        about: Mapping[str, Any] | None = None,
        other: Explainer | None = None,
    ) -> None:
        self._explainers = _named([explainer] if other is None else [explainer, other])
        self._first = explanations[0] if explanations else None
        self._insides: OrderedDict[tuple[Any, ...], Inside] = OrderedDict()
        self._made: dict[tuple[Any, ...], Explanation] = {}
        self._given_first, self._picture = read.given_first(self._first, text)
        # What was asked about the input beside its target: which place, which answer, which labels.
        self._about = dict(about or {}) or read.recalled(self._first)
        if self._picture is not None:
            self._text, self._pair = "", None
        elif self._first is None:
            self._text, self._pair = text if isinstance(text, tuple) else (text, None)
        else:
            self._text, self._pair = text_of(self._first), self._first.source.pair
        for one in explanations:
            self._made[(*self._key(self._input()), one.method)] = one
        self.payload = merge([one.to_shown() for one in explanations]) if explanations else None

    def state(self) -> dict[str, Any]:
        """Return the view that shows what was given."""
        names = list(self._explainers)
        begun: dict[str, Any] = {
            "model": names[0],
            "text": self._text,
            "pair": self._pair,
            "picture": self._picture,
            **read.as_state(self._about),
        }
        if len(names) > 1:
            begun |= {"page": "compare", "other": names[1]}
        if self._first is not None:
            begun |= {
                "target": target_of(self._first),
                "of": self._first.asked.of,
                "methods": list(dict.fromkeys(key[-1] for key in self._made)),
            }
        return begun

    def static(self) -> str | None:
        """Return what was given as a piece of HTML that needs no script."""
        if len(self._explainers) > 1:
            a, b = self._explainers
            first = self._first
            method = self._explainers[b].default_method() if first is None else first.method
            return one_fragment(self._compare({**self._input(), "a": a, "b": b, "method": method}))
        return None if self.payload is None else fragment(self.payload)

    def __str__(self) -> str:
        text = self._picture or self._text
        return f"{' and '.join(self._explainers)} on {short(text)!r}"

    def answer(self, ask: str, asked: Asked, progress: Progress) -> Any:
        """Answer one question, or raise."""
        match ask:
            case "session":
                return self._session()
            case "explain":
                return self._explain(asked)
            case "trust":
                return self._trust(asked, progress)
            case "compare":
                return self._compare(asked)
            case "flow":
                return self._inside(asked["input"]).flow(**read.flow(asked))
            case "heads":
                return self._inside(asked["input"]).head_statistic(asked["statistic"], progress)
            case "tensors":
                return self._inside(asked["input"]).tensors(asked["keys"])
            case "verify":
                return self._verify(asked, progress)
            case "generate":
                return self._generate(asked, progress)
        raise BadParameter(f"The page asked for {ask!r}, which nobody here can answer.")

    def _input(self) -> dict[str, Any]:
        aim = (
            {}
            if self._first is None
            else {"target": target_of(self._first), "of": self._first.asked.of}
        )
        return {
            "model": next(iter(self._explainers)),
            "text": self._text,
            "pair": self._pair,
            "picture": self._picture,
            **read.as_state(self._about),
            **aim,
        }

    def _key(self, asked: Asked, reader: Explainer | None = None) -> tuple[Any, ...]:
        of = asked.get("of", "logit")
        model = asked.get("model") or next(iter(self._explainers))
        longest = (reader or self._explainer(model)).loaded.max_length
        more = tuple(sorted((name, str(value)) for name, value in read.about(asked).items()))
        text, pair, picture = (asked.get(name) for name in ("text", "pair", "picture"))
        return (model, text, pair, asked.get("target"), of, longest, picture, more)

    def _explainer(self, name: str) -> Explainer:
        if name not in self._explainers:
            raise UnknownModel(
                f"This workbench has no model {name!r}. It has: {', '.join(self._explainers)}."
            )
        return self._explainers[name]

    def _given(self, asked: Asked) -> Any:
        """Return what to encode; an input that came encoded, or as a picture, is what it was."""
        if self._given_first is not None and asked.get("text") == self._text:
            return self._given_first
        return asked["text"] if asked.get("pair") is None else (asked["text"], asked["pair"])

    def _inside(self, asked: Asked, reader: Explainer | None = None) -> Inside:
        """Look inside; `reader` is an explainer of the same model that cuts texts elsewhere."""
        key = self._key(asked, reader)
        if key not in self._insides:
            looked = reader or self._explainer(key[0])
            first = self._first
            if first is not None and key == self._key(self._input()):
                self._insides[key] = looked.inside(first)
            else:
                self._insides[key] = looked.inside(self._given(asked), **self._asks(asked))
            if len(self._insides) > _KEPT:
                self._insides.popitem(last=False)
        self._insides.move_to_end(key)
        return self._insides[key]

    def _explanation(
        self, asked: Asked, method: str, reader: Explainer | None = None
    ) -> Explanation:
        key = (*self._key(asked, reader), method)
        if key not in self._made:
            made = (reader or self._explainer(key[0])).explain(
                self._given(asked), method=method, **self._asks(asked)
            )
            self._made[key] = made[asked.get("entity") or 0] if isinstance(made, list) else made
        return self._made[key]

    def _asks(self, asked: Asked) -> dict[str, Any]:
        """Return what is asked about an input; of the first one also what the page cannot say."""
        same = asked.get("text") == self._text and asked.get("picture") == self._picture
        own = {"at": self._about["at"]} if same and "at" in self._about else {}
        target, of = asked.get("target"), asked.get("of", "logit")
        return {**own, **read.about(asked), "target": target, "of": of, "truncate": True}

    def _explain(self, asked: Asked) -> dict[str, Any]:
        given, found = asked["input"], []
        failed: dict[str, WhenceError] = {}
        for method in asked["methods"]:
            try:
                found.append(self._explanation(given, method))
            except WhenceError as error:
                failed[method] = error
        if not found:
            raise next(iter(failed.values()))
        said = {method: str(error) for method, error in failed.items()}
        return told(found, said, self._inside(given).warnings())

    def _trust(self, asked: Asked, progress: Progress) -> dict[str, Any]:
        given = asked["input"]
        key = self._key(given)
        card = self._explainer(key[0]).trust(
            self._given(given),
            method=list(asked["methods"]),
            budget=asked.get("budget"),
            progress=progress,
            **self._asks(given),
        )
        return {"kind": "trust", **card.to_dict()}

    def _verify(self, asked: Asked, progress: Progress) -> dict[str, Any]:
        return self._inside(asked["input"]).verify(
            [(layer, head, source, to) for layer, head, source, to in asked["edges"]],
            draws=asked.get("draws", 30),
            seed=asked.get("seed", 0),
            progress=progress,
        )

    def _generate(self, asked: Asked, progress: Progress) -> dict[str, Any]:
        given = asked["input"]
        made = self._explainer(self._key(given)[0]).generate(
            self._given(given),
            asked["tokens"],
            method=asked["method"],
            granularity=asked["granularity"],
            progress=progress,
        )
        return made.to_dict()

    def _compare(self, asked: Asked) -> dict[str, Any]:
        from whence.comparison import compared
        from whence.comparison.aim import aim, aims_apart, tried
        from whence.comparison.match import of_one_length

        inputs = [{**asked, "model": asked[side]} for side in ("a", "b")]
        readers = of_one_length(*(self._explainer(one["model"]) for one in inputs))
        one, other = (
            self._inside(given, reader) for given, reader in zip(inputs, readers, strict=True)
        )
        if asked.get("target") is None and (label := aim(one, other)) is not None:
            inputs[0]["target"] = label
            one = self._inside(inputs[0], readers[0])
        method = asked.get("method")
        warnings = [] if method is None else aims_apart(one, other)
        explanations = [
            None
            if method is None or not reader.labels
            else tried(
                reader.loaded.name,
                method,
                partial(self._explanation, given, method, reader),
                warnings,
            )
            for given, reader in zip(inputs, readers, strict=True)
        ]
        found = compared(one, other, **read.compared(asked), explanations=tuple(explanations))
        return {**found, "warnings": [*found["warnings"], *warnings]}

    def _session(self) -> dict[str, Any]:
        names = list(self._explainers)
        return {
            "version": __version__,
            "started": "kernel",
            "models": [self._entry(name) for name in names],
            "compare": names if len(names) > 1 else None,
            "data": [],
            "samples": [{"text": self._text, "pair": self._pair}],
            "allow_load": False,
            "limits": {
                "characters": 50_000,
                "upload": 0,
                "seconds": 0,
                "edges": 5000,
                "generated": 200,
            },
        }

    def _entry(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "state": "ready",
            "name": name,
            "samples": [],  # the session has the input that the widget was opened with
            **offers(self._explainers[name]),
            "error": None,
        }


def _named(explainers: Sequence[Explainer]) -> dict[str, Explainer]:
    """Name models as they are named; a second of the same name gets a number."""
    named: dict[str, Explainer] = {}
    for explainer in explainers:
        name = explainer.loaded.name
        named[f"{name} (2)" if name in named else name] = explainer
    return named


"""The workbench in a notebook: the page's pictures in a cell, and what is selected there back in Python."""

from whence.widget.open import workbench

__all__ = ["workbench"]


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


"""The state of the view, as the page has it: every field with its default."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from whence.core.errors import BadParameter, did_you_mean
from whence.explainer.inside.statistics import STATISTICS
from whence.flow import DIRECTIONS, NAMES
from whence.flow.query import PAIRS

# The same names and values as in web/src/state/state.ts; a test holds the two together.
DEFAULT: Mapping[str, Any] = {
    "page": "explain",
    "model": "",
    "other": "",
    "text": "",
    "pair": None,
    "picture": None,
    "at": None,
    "entity": 0,
    "answer": None,
    "rather": None,
    "labels": "",
    "template": None,
    "methods": [],  # the usual one of the model
    "target": None,
    "of": "logit",
    "beside": [],
    "generate": None,
    "granularity": "token",
    "weight": "attention",
    "direction": "back",
    "token": None,
    "coverage": None,  # as much as can be read, half of the flow at the most
    "layers": None,
    "heads": [],
    "tokens": [],
    "segments": [],
    "least": 0,
    "specials": "gutter",
    "classic": None,
    "view": "ladder",
    "statistic": "entropy",
    "thumbnails": False,
    "head": None,
    "words": True,
    "strength": 1,
    "smooth": True,
    "difference": False,
    "data": None,
    "result": None,
    "card": None,
    "tab": "",
    "rows": "",
    "run": None,
    "against": None,
    "found": "",
}
NOTHING: Mapping[str, Any] = {"tokens": [], "edges": [], "head": None}


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "page": ("explain", "compare", "data", "results", "runs", "help"),
    "of": ("logit", "probability"),
    "granularity": ("token", "word", "sentence", "paragraph", "passage"),
    "weight": NAMES,
    "direction": DIRECTIONS,
    "specials": ("gutter", "show", "hide"),
    "view": ("ladder", "rings", "sankey", "heatmap", "network"),
    "statistic": tuple(STATISTICS),
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_places(value: Any) -> bool:
    """Two whole numbers: a layer and a head, or the first and the last layer."""
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value))


def _is_measure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _are(each: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(each, value))


def _is_classic(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"threshold", "decay", "carry"}


# By field: what it must be, and how that is said; those whose default is None may be None.
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        (
            *("model", "other", "text", "pair", "picture", "at", "answer", "rather", "labels"),
            *(
                "template",
                "target",
                "tab",
                "rows",
                "data",
                "result",
                "card",
                "run",
                "against",
                "found",
            ),
        ),
        (_is_text, "a text"),
    ),
    **dict.fromkeys(
        ("thumbnails", "words", "smooth", "difference"),
        (lambda value: isinstance(value, bool), "True or False"),
    ),
    "methods": (_are(_is_text), "a list of methods"),
    "beside": (_are(_is_text), "a list of targets"),
    "entity": (_is_number, "the number of something that was found, from 0"),
    "generate": (_is_number, "a number of tokens"),
    "token": (_is_number, "the number of a token, from 0"),
    **dict.fromkeys(
        ("coverage", "strength"),
        (lambda value: _is_measure(value) and value <= 1, "a share from 0 to 1"),
    ),
    "least": (_is_measure, "a number of 0 or more"),
    "layers": (_is_places, "the first and the last layer, from 0"),
    "head": (_is_places, "a layer and a head, from 0"),
    "heads": (_are(_is_places), "a list of heads, each a layer and a head"),
    "tokens": (_are(_is_number), "a list of numbers of tokens, from 0"),
    "segments": (_are(lambda value: value in PAIRS), f"a list of {', '.join(PAIRS)}"),
    "classic": (_is_classic, "a threshold, a decay and a carry"),
}


def _check(name: str, value: Any) -> None:
    """Refuse a value that the view cannot have."""
    if name in _CHOICES:
        known = _CHOICES[name]
        if value not in known:
            near = did_you_mean(str(value), list(known))
            raise BadParameter(f"{name} must be one of {', '.join(known)}. Got {value!r}.{near}")
        return
    fits, said = _KINDS[name]
    optional = DEFAULT[name] is None
    if not (fits(value) or (optional and value is None)):
        raise BadParameter(f"{name} must be {said}{', or None' * optional}. Got {value!r}.")


def moved(old: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state after a change of some of its fields; a name or a value that is none is refused."""
    for name in change:
        if name not in DEFAULT:
            raise BadParameter(
                f"The view has no {name!r}.{did_you_mean(str(name), list(DEFAULT))} It has: {', '.join(DEFAULT)}."
            )
        _check(name, change[name])
    return {**DEFAULT, **old, **change}
