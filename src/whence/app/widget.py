"""Notebook side of the workbench: `workbench()`, the session that answers requests, and view state checks.

The requests and answers are those of the HTTP API, for one model or two. The fields of the view state and
their defaults are those of web/src/state/state.ts; a test compares the two.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence._version import __version__
from whence.core.errors import (
    BadParameter,
    CannotRead,
    CannotServe,
    UnknownModel,
    WhenceError,
    shorten_quote,
    suggest_name,
)
from whence.core.progress import Progress
from whence.core.types import OutputScale
from whence.data.readout import ContinuationReadout, EntityReadout
from whence.explain.explainer import Explainer, describe_model_options, load
from whence.explain.explanation import Explanation
from whence.explain.inside import STATISTICS, Inside
from whence.explain.page import build_explanations_data
from whence.explain.report import build_document
from whence.flow.classic import ClassicSettings
from whence.flow.graph import DIRECTIONS, SEGMENT_PAIRS, EdgeQuery
from whence.flow.weights import EDGE_WEIGHT_NAMES
from whence.render.colour import merge_payloads
from whence.studies.compare.report import render_input_comparison_fragment

if TYPE_CHECKING:
    from whence.app.workbench import Workbench

WidgetRequest = Mapping[str, Any]


def parse_flow_request(request: WidgetRequest) -> dict[str, Any]:
    """Return the arguments of `Inside.flow` from a request."""
    classic = request.get("classic")
    return {
        **parse_flow_query(request),
        "residual": request.get("residual"),
        "most": request.get("most", 5000),
        "classic": None if classic is None else ClassicSettings(**classic),
    }


def parse_flow_query(request: WidgetRequest) -> dict[str, Any]:
    """Return the weight, direction, token and edge query of a request."""
    query = request.get("query") or {}
    layers = query.get("layers")
    return {
        "weight": request.get("weight", "attention"),
        "direction": request.get("direction", "back"),
        "token": request.get("token"),
        "query": EdgeQuery(
            layers=None if layers is None else (layers[0], layers[1]),
            heads=tuple((layer, head) for layer, head in query.get("heads", ())),
            tokens=tuple(query.get("tokens", ())),
            segments=tuple(query.get("segments", ())),
            least=query.get("least", 0.0),
            specials=query.get("specials", True),
        ),
    }


def find_text(explanation: Explanation) -> str:
    """Return the explained text, or the joined words of an input given as token ids."""
    text = explanation.source.text
    return " ".join(word.text for word in explanation.spans) if text is None else text


def find_target(explanation: Explanation) -> str | None:
    """Return the target in the page's notation; None for the predicted class."""
    target = explanation.target
    if target.against is not None:
        return f"{target.label}:{target.against.label}"
    return None if target.index == explanation.prediction.index else target.label


def parse_options(model_input: WidgetRequest) -> dict[str, Any]:
    """Return the options of an input beside its target: position, answer, labels, template."""
    options: dict[str, Any] = {
        name: model_input[name]
        for name in ("at", "answer", "labels", "template")
        if model_input.get(name)
    }
    if model_input.get("rather"):
        options["answer"] = (model_input["answer"], model_input["rather"])
    return options


def options_to_state(about: WidgetRequest) -> dict[str, Any]:
    """Return options as fields of the view state; those it cannot express are left out."""
    fields = {name: about[name] for name in ("template",) if about.get(name)}
    at, answer, labels = (about.get(name) for name in ("at", "answer", "labels"))
    if isinstance(at, str | int):
        fields["at"] = str(at)
    if isinstance(answer, str):
        fields["answer"] = answer
    elif answer:
        fields["answer"], fields["rather"] = answer
    if labels:
        fields["labels"] = ", ".join(labels)
    return fields


def recall_options(explanation: Explanation | None) -> dict[str, Any]:
    """Return the options of an existing explanation, as far as its readout shows them."""
    if explanation is None or explanation.item is None:
        return {}
    reading = explanation.item.reading
    if isinstance(reading, EntityReadout):
        return {"at": reading.places}
    if isinstance(reading, ContinuationReadout):
        return {"answer": explanation.target.label}
    return {}


def find_unsendable_input(explanation: Explanation | None, source: Any) -> tuple[Any, str | None]:
    """Return an input the page cannot send back (encoded or a picture), and the picture's name."""
    if explanation is None:
        if isinstance(source, str | tuple):
            return None, None
        return source, "picture"
    item = explanation.item
    if item is not None and item.picture is not None:
        return {"pixel_values": item.picture.pixels[None]}, item.picture.name or "picture"
    if item is not None and explanation.source.text is None:
        return {name: [list(row)] for name, row in item.features.items()}, None
    return None, None


def describe_error(error: BaseException) -> dict[str, str]:
    """Return an error as code, message, hint and page of the documentation."""
    if isinstance(error, WhenceError):
        return {"code": error.code, "message": str(error), "hint": "", "see": error.page}
    if isinstance(error, KeyboardInterrupt):
        fault = {"code": "interrupted", "message": "The kernel was interrupted."}
        return {**fault, "hint": "Ask again.", "see": ""}
    summary = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    message = f"Something went wrong inside whence ({summary})."
    return {"code": "internal-error", "message": message, "hint": "Please report it.", "see": ""}


_MAX_INSIDES = 6  # cached inspected inputs; each may hold all attention maps


class NotebookSession:
    """The kernel's side of a workbench: one or two models, an input, and cached answers."""

    def __init__(
        self,
        explainer: Explainer,
        explanations: Sequence[Explanation],
        *,
        text: Any = None,
        about: Mapping[str, Any] | None = None,
        other: Explainer | None = None,
    ) -> None:
        self._explainers = _name_explainers([explainer] if other is None else [explainer, other])
        self._first = explanations[0] if explanations else None
        self._insides: OrderedDict[tuple[Any, ...], Inside] = OrderedDict()
        self._explanations: dict[tuple[Any, ...], Explanation] = {}
        self._raw_input, self._picture = find_unsendable_input(self._first, text)
        # Options beside the target: position, answer, labels, template.
        self._about = dict(about or {}) or recall_options(self._first)
        if self._picture is not None:
            self._text, self._pair = "", None
        elif self._first is None:
            self._text, self._pair = text if isinstance(text, tuple) else (text, None)
        else:
            self._text, self._pair = find_text(self._first), self._first.source.pair
        for explanation in explanations:
            self._explanations[
                (*self._build_key(self._build_first_input()), explanation.method)
            ] = explanation
        self.payload = (
            merge_payloads([explanation.to_display_dict() for explanation in explanations])
            if explanations
            else None
        )

    def build_initial_state(self) -> dict[str, Any]:
        """Return the initial view state for the given input."""
        names = list(self._explainers)
        state: dict[str, Any] = {
            "model": names[0],
            "text": self._text,
            "pair": self._pair,
            "picture": self._picture,
            **options_to_state(self._about),
        }
        if len(names) > 1:
            state |= {"page": "compare", "other": names[1]}
        if self._first is not None:
            state |= {
                "target": find_target(self._first),
                "of": self._first.original_target.of,
                "methods": list(dict.fromkeys(key[-1] for key in self._explanations)),
            }
        return state

    def render_static(self) -> str | None:
        """Return the explanation or comparison as HTML without script; None without either."""
        if len(self._explainers) > 1:
            a, b = self._explainers
            first = self._first
            method = self._explainers[b].default_method() if first is None else first.method
            return render_input_comparison_fragment(
                self._compare({**self._build_first_input(), "a": a, "b": b, "method": method})
            )
        return (
            None if self.payload is None else build_document([self.payload]).to_html(fragment=True)
        )

    def __str__(self) -> str:
        text = self._picture or self._text
        return f"{' and '.join(self._explainers)} on {shorten_quote(text)!r}"

    def answer(self, ask: str, request: WidgetRequest, progress: Progress) -> Any:
        """Return the answer to one request of the page."""
        match ask:
            case "session":
                return self._describe_session()
            case "explain":
                return self._explain(request)
            case "trust":
                return self._trust(request, progress)
            case "compare":
                return self._compare(request)
            case "flow":
                return self._get_inside(request["input"]).flow(**parse_flow_request(request))
            case "heads":
                return self._get_inside(request["input"]).head_statistic(
                    request["statistic"], progress
                )
            case "tensors":
                return self._get_inside(request["input"]).tensors(request["keys"])
            case "verify":
                return self._verify(request, progress)
            case "generate":
                return self._generate(request, progress)
        raise BadParameter(f"The page asked for {ask!r}, which nobody here can answer.")

    def _build_first_input(self) -> dict[str, Any]:
        target = (
            {}
            if self._first is None
            else {"target": find_target(self._first), "of": self._first.original_target.of}
        )
        return {
            "model": next(iter(self._explainers)),
            "text": self._text,
            "pair": self._pair,
            "picture": self._picture,
            **options_to_state(self._about),
            **target,
        }

    def _build_key(
        self, model_input: WidgetRequest, reader: Explainer | None = None
    ) -> tuple[Any, ...]:
        of = model_input.get("of", "logit")
        model = model_input.get("model") or next(iter(self._explainers))
        max_length = (reader or self._get_explainer(model)).loaded.max_length
        options = tuple(
            sorted((name, str(value)) for name, value in parse_options(model_input).items())
        )
        text, pair, picture = (model_input.get(name) for name in ("text", "pair", "picture"))
        return (model, text, pair, model_input.get("target"), of, max_length, picture, options)

    def _get_explainer(self, name: str) -> Explainer:
        if name not in self._explainers:
            raise UnknownModel(
                f"This workbench has no model {name!r}. It has: {', '.join(self._explainers)}."
            )
        return self._explainers[name]

    def _resolve_input(self, model_input: WidgetRequest) -> Any:
        """Return the input to explain; an encoded input or a picture is the original object."""
        if self._raw_input is not None and model_input.get("text") == self._text:
            return self._raw_input
        return (
            model_input["text"]
            if model_input.get("pair") is None
            else (model_input["text"], model_input["pair"])
        )

    def _get_inside(self, model_input: WidgetRequest, reader: Explainer | None = None) -> Inside:
        """Return the inspected input, cached; `reader`: an explainer with another maximal length."""
        key = self._build_key(model_input, reader)
        if key not in self._insides:
            explainer = reader or self._get_explainer(key[0])
            first = self._first
            if first is not None and key == self._build_key(self._build_first_input()):
                self._insides[key] = explainer.inside(first)
            else:
                self._insides[key] = explainer.inside(
                    self._resolve_input(model_input), **self._build_options(model_input)
                )
            if len(self._insides) > _MAX_INSIDES:
                self._insides.popitem(last=False)
        self._insides.move_to_end(key)
        return self._insides[key]

    def _get_explanation(
        self, model_input: WidgetRequest, method: str, reader: Explainer | None = None
    ) -> Explanation:
        key = (*self._build_key(model_input, reader), method)
        if key not in self._explanations:
            result = (reader or self._get_explainer(key[0])).explain(
                self._resolve_input(model_input), method=method, **self._build_options(model_input)
            )
            self._explanations[key] = (
                result[model_input.get("entity") or 0] if isinstance(result, list) else result
            )
        return self._explanations[key]

    def _build_options(self, model_input: WidgetRequest) -> dict[str, Any]:
        """Return the options of `explain`; for the first input also those the page cannot express."""
        is_first = (
            model_input.get("text") == self._text and model_input.get("picture") == self._picture
        )
        position = {"at": self._about["at"]} if is_first and "at" in self._about else {}
        target, of = model_input.get("target"), model_input.get("of", "logit")
        return {
            **position,
            **parse_options(model_input),
            "target": target,
            "of": of,
            "truncate": True,
        }

    def _explain(self, request: WidgetRequest) -> dict[str, Any]:
        model_input, explanations = request["input"], []
        failed: dict[str, WhenceError] = {}
        for method in request["methods"]:
            try:
                explanations.append(self._get_explanation(model_input, method))
            except WhenceError as error:
                failed[method] = error
        if not explanations:
            raise next(iter(failed.values()))
        messages = {method: str(error) for method, error in failed.items()}
        return build_explanations_data(
            explanations, messages, self._get_inside(model_input).warnings()
        )

    def _trust(self, request: WidgetRequest, progress: Progress) -> dict[str, Any]:
        model_input = request["input"]
        key = self._build_key(model_input)
        card = self._get_explainer(key[0]).trust(
            self._resolve_input(model_input),
            method=list(request["methods"]),
            budget=request.get("budget"),
            progress=progress,
            **self._build_options(model_input),
        )
        return {"kind": "trust", **card.to_dict()}

    def _verify(self, request: WidgetRequest, progress: Progress) -> dict[str, Any]:
        return self._get_inside(request["input"]).verify(
            [(layer, head, source, to) for layer, head, source, to in request["edges"]],
            draws=request.get("draws", 30),
            seed=request.get("seed", 0),
            progress=progress,
        )

    def _generate(self, request: WidgetRequest, progress: Progress) -> dict[str, Any]:
        model_input = request["input"]
        generation = self._get_explainer(self._build_key(model_input)[0]).generate(
            self._resolve_input(model_input),
            request["tokens"],
            method=request["method"],
            granularity=request["granularity"],
            progress=progress,
        )
        return generation.to_dict()

    def _compare(self, request: WidgetRequest) -> dict[str, Any]:
        from whence.studies.compare.compare import (
            choose_common_target,
            compare_on_input,
            explain_or_warn,
            list_target_warnings,
        )
        from whence.studies.compare.pair_measures import with_common_max_length

        inputs = [{**request, "model": request[side]} for side in ("a", "b")]
        readers = with_common_max_length(
            *(self._get_explainer(model_input["model"]) for model_input in inputs)
        )
        inside_a, inside_b = (
            self._get_inside(model_input, reader)
            for model_input, reader in zip(inputs, readers, strict=True)
        )
        if (
            request.get("target") is None
            and (label := choose_common_target(inside_a, inside_b)) is not None
        ):
            inputs[0]["target"] = label
            inside_a = self._get_inside(inputs[0], readers[0])
        method = request.get("method")
        warnings = [] if method is None else list_target_warnings(inside_a, inside_b)
        explanations = [
            None
            if method is None or not reader.labels
            else explain_or_warn(
                reader.loaded.name,
                method,
                partial(self._get_explanation, model_input, method, reader),
                warnings,
            )
            for model_input, reader in zip(inputs, readers, strict=True)
        ]
        comparison = compare_on_input(
            inside_a, inside_b, **parse_flow_query(request), explanations=tuple(explanations)
        )
        return {**comparison, "warnings": [*comparison["warnings"], *warnings]}

    def _describe_session(self) -> dict[str, Any]:
        names = list(self._explainers)
        return {
            "version": __version__,
            "started": "kernel",
            "models": [self._describe_model(name) for name in names],
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

    def _describe_model(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "state": "ready",
            "name": name,
            "samples": [],  # the session's sample is the widget's own input
            **describe_model_options(self._explainers[name]),
            "error": None,
        }


def _name_explainers(explainers: Sequence[Explainer]) -> dict[str, Explainer]:
    """Return explainers by model name; a second of the same name gets the suffix (2)."""
    by_name: dict[str, Explainer] = {}
    for explainer in explainers:
        name = explainer.loaded.name
        by_name[f"{name} (2)" if name in by_name else name] = explainer
    return by_name


def workbench(
    what: Any,
    text: Any = None,
    *,
    against: Any = None,
    method: str | Sequence[str] | None = None,
    target: Any = None,
    of: OutputScale = "logit",
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
    explanations = _list_explanations(what)
    options = {"at": at, "answer": answer, "labels": labels, "template": template}
    about = {name: value for name, value in options.items() if value is not None}
    if explanations:
        explainer = explanations[0].explainer
        if explainer is None:
            raise CannotRead(
                "This explanation came without its model, which the workbench asks. Explain the text anew: "
                "whence.workbench(whence.load(...), text)."
            )
        if text is not None:
            raise BadParameter("An explanation has its text already: give one of the two.")
    else:
        explainer = _resolve_explainer(what)
        if text is None:
            raise BadParameter(
                "There is no text or picture to show. Give it: whence.workbench(explainer, text)."
            )
        # If the first of two models has no labels, only their flows are compared.
        if explainer.loaded.is_classifier or (against is None and explainer.loaded.task != "none"):
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
            explanations = list(by_name.values())
    widget_class = _import_workbench()
    other = None if against is None else _resolve_explainer(against)
    session = NotebookSession(explainer, explanations, text=text, about=about, other=other)
    return widget_class(session, {**session.build_initial_state(), **(state or {})})


def _list_explanations(what: Any) -> list[Explanation]:
    if isinstance(what, Explanation):
        return [what]
    if isinstance(what, Mapping) and what:
        values = list(what.values())
        if all(isinstance(value, Explanation) for value in values):
            return values
    return []


def _resolve_explainer(what: Any) -> Explainer:
    if isinstance(what, Explainer):
        return what
    if not isinstance(what, str | Path) and not hasattr(what, "config"):
        raise BadParameter(
            f"A workbench cannot be opened on {str(what)[:40]!r} ({type(what).__name__}). Give an explanation, an "
            'explainer, or what whence.load takes: whence.workbench("reviews", text).'
        )
    return load(what)


def _import_workbench() -> "type[Workbench]":
    """Return the widget class; raise CannotServe if its package is not installed."""
    try:
        from whence.app.workbench import Workbench
    except ImportError:
        raise CannotServe(
            "The workbench in a notebook needs another package: pip install 'whence[notebook]'."
        ) from None
    return Workbench


# The same names and values as in web/src/state/state.ts; a test compares the two.
DEFAULT_STATE: Mapping[str, Any] = {
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
    "methods": [],  # empty: the model's default
    "target": None,
    "of": "logit",
    "beside": [],
    "generate": None,
    "granularity": "token",
    "weight": "attention",
    "direction": "back",
    "token": None,
    "coverage": None,  # None: as much as is legible, at most half of the flow
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
EMPTY_SELECTION: Mapping[str, Any] = {"tokens": [], "edges": [], "head": None}


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "page": ("explain", "compare", "data", "results", "runs", "help"),
    "of": ("logit", "probability"),
    "granularity": ("token", "word", "sentence", "paragraph", "passage"),
    "weight": EDGE_WEIGHT_NAMES,
    "direction": DIRECTIONS,
    "specials": ("gutter", "show", "hide"),
    "view": ("ladder", "rings", "sankey", "heatmap", "network"),
    "statistic": tuple(STATISTICS),
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number_pair(value: Any) -> bool:
    """Return whether a value is two whole numbers: layer and head, or first and last layer."""
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value))


def _is_non_negative(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _is_list_of(is_item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(is_item, value))


def _is_classic(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"threshold", "decay", "carry"}


# By field: its check, and the description for errors; None is allowed if it is the default.
_FIELD_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
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
    "methods": (_is_list_of(_is_text), "a list of methods"),
    "beside": (_is_list_of(_is_text), "a list of targets"),
    "entity": (_is_number, "the number of something that was found, from 0"),
    "generate": (_is_number, "a number of tokens"),
    "token": (_is_number, "the number of a token, from 0"),
    **dict.fromkeys(
        ("coverage", "strength"),
        (lambda value: _is_non_negative(value) and value <= 1, "a share from 0 to 1"),
    ),
    "least": (_is_non_negative, "a number of 0 or more"),
    "layers": (_is_number_pair, "the first and the last layer, from 0"),
    "head": (_is_number_pair, "a layer and a head, from 0"),
    "heads": (_is_list_of(_is_number_pair), "a list of heads, each a layer and a head"),
    "tokens": (_is_list_of(_is_number), "a list of numbers of tokens, from 0"),
    "segments": (
        _is_list_of(lambda value: value in SEGMENT_PAIRS),
        f"a list of {', '.join(SEGMENT_PAIRS)}",
    ),
    "classic": (_is_classic, "a threshold, a decay and a carry"),
}


def _check_field(name: str, value: Any) -> None:
    """Raise BadParameter for a value that a field of the view state cannot have."""
    if name in _CHOICES:
        known = _CHOICES[name]
        if value not in known:
            near = suggest_name(str(value), list(known))
            raise BadParameter(f"{name} must be one of {', '.join(known)}. Got {value!r}.{near}")
        return
    fits, description = _FIELD_CHECKS[name]
    optional = DEFAULT_STATE[name] is None
    if not (fits(value) or (optional and value is None)):
        raise BadParameter(f"{name} must be {description}{', or None' * optional}. Got {value!r}.")


def update_state(old: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the view state after a change; raise BadParameter for an unknown field or value."""
    for name in change:
        if name not in DEFAULT_STATE:
            raise BadParameter(
                f"The view has no {name!r}.{suggest_name(str(name), list(DEFAULT_STATE))} It has: {', '.join(DEFAULT_STATE)}."
            )
        _check_field(name, change[name])
    return {**DEFAULT_STATE, **old, **change}
