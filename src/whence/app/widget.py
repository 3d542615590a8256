"""Notebook side of the workbench: `workbench()`, the session that answers requests, and view state checks.

The requests and answers are those of the HTTP API, for one model or two. The fields of the view state and
their defaults are those of web/src/state/state.ts; a test compares the two.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from whence._version import __version__
from whence.app import answers, schema
from whence.app.error_responses import describe_error
from whence.app.models import Pictures, ServedModel
from whence.app.schema import Input
from whence.app.settings import Settings
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
from whence.explain.examine import describe_model_options
from whence.explain.explainer import Explainer, load
from whence.explain.explanation import Explanation
from whence.explain.explanations import Explanations
from whence.explain.inside import Inside
from whence.explain.report import build_document
from whence.explain.word_scores import merge_payloads
from whence.studies.compare.report import build_input_document

if TYPE_CHECKING:
    from whence.app.workbench import Workbench


def find_target(explanation: Explanation) -> str | None:
    """Return the target in the page's notation; None for the predicted class."""
    target = explanation.target
    if target.against is not None:
        return f"{target.label}:{target.against.label}"
    return None if target.index == explanation.prediction.index else target.label


def options_to_state(about: Mapping[str, Any]) -> dict[str, str]:
    """Return options as fields of the view state; those it cannot express are left out."""
    at, answer, rather = about.get("at"), about.get("answer"), None
    if answer is not None and not isinstance(answer, str):
        answer, rather = answer
    fields = {
        "template": about.get("template"),
        "at": str(at) if isinstance(at, str | int) else None,
        "answer": answer,
        "rather": rather,
        "labels": ", ".join(about.get("labels") or ()),
    }
    return {name: value for name, value in fields.items() if value}


def recall_options(explanation: Explanation) -> dict[str, Any]:
    """Return the options of an existing explanation, as far as its readout shows them."""
    reading = None if explanation.item is None else explanation.item.reading
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


def describe_fault(error: BaseException) -> dict[str, Any]:
    """Return an error as the page takes it; the hints of the server are about the server."""
    if isinstance(error, KeyboardInterrupt):
        fault = {"code": "interrupted", "message": "The kernel was interrupted."}
        return {**fault, "hint": "Ask again.", "see": ""}
    hint = "" if isinstance(error, WhenceError) else "Please report it."
    return {**describe_error(error), "hint": hint}


class NotebookModel(ServedModel):
    """A model of a workbench, and the input that the workbench was opened on."""

    def __init__(self, name: str, explainer: Explainer) -> None:
        settings = Settings()
        super().__init__(name, name, 0, settings, Pictures(settings))
        self._explainer, self.state = explainer, "ready"
        self._facts = describe_model_options(explainer)
        self.raw: Any = None  # an encoded input or a picture, which the page cannot send back
        self.at: Any = None  # a position that the page cannot express
        self.first: Input | None = None  # the first input, as the page sends it
        self.given: dict[str, Explanation] = {}  # its explanations, by method

    def to_entry(self) -> dict[str, Any]:
        """Return the entry of the model in the page's list."""
        return {**super().to_entry(), "name": self.id, "samples": []}  # the session has the sample

    def explain(
        self,
        model_input: Input,
        methods: Sequence[str],
        progress: Progress,
        reader: Explainer | None = None,
    ) -> list[list[Explanation]]:
        """Return the explanations; those that the workbench was opened on are given."""
        if self._is_first(model_input) and all(name in self.given for name in methods):
            return [[self.given[name] for name in methods]]
        return super().explain(model_input, methods, progress, reader)

    def resolve_input(self, model_input: Input) -> Any:
        """Return the explained input, the original object where the page cannot send it back."""
        if self.raw is not None and self._is_first(model_input, "text", "pair", "picture"):
            return self.raw
        return super().resolve_input(model_input)

    def build_options(self, model_input: Input) -> dict[str, Any]:
        """Return the options of a request as arguments of `explain`."""
        options = super().build_options(model_input)
        if options["at"] is None and self._is_first(model_input, "text", "pair", "picture"):
            options["at"] = self.at
        return options

    def _inspect(self, model_input: Input, explainer: Explainer) -> Inside:
        if self.given and explainer is self._explainer and self._is_first(model_input):
            return explainer.inside(next(iter(self.given.values())))
        return super()._inspect(model_input, explainer)

    def _is_first(self, model_input: Input, *fields: str) -> bool:
        """Return whether an input is the first one, in some fields or as a whole."""
        names = set(fields) or Input.model_fields.keys() - {"model"}
        return self.first is not None and all(
            getattr(model_input, name) == getattr(self.first, name) for name in names
        )


class NotebookSession:
    """The kernel's side of a workbench: one or two models, and an input."""

    def __init__(
        self,
        explainer: Explainer,
        explanations: Sequence[Explanation],
        *,
        text: Any = None,
        about: Mapping[str, Any] | None = None,
        other: Explainer | None = None,
    ) -> None:
        first = explanations[0] if explanations else None
        about = about or ({} if first is None else recall_options(first))
        raw, picture = find_unsendable_input(first, text)
        pair = None
        if picture is not None:
            text = ""
        elif first is not None:
            text, pair = first.source.text, first.source.pair
            if text is None:  # given as token ids
                text = " ".join(word.text for word in first.spans)
        elif isinstance(text, tuple):
            text, pair = text
        fields = {"text": text, "pair": pair, "picture": picture, **options_to_state(about)}
        if first is not None:
            fields |= {"target": find_target(first), "of": first.original_target.of}
        model = NotebookModel(explainer.loaded.name, explainer)
        self._models = {model.id: model}
        labels = list(about.get("labels") or ()) or None
        model.first = Input(model=model.id, **{**fields, "labels": labels})
        model.raw, model.at = raw, about.get("at")
        model.given = {explanation.method: explanation for explanation in explanations}
        self.state = {"model": model.id, **fields}  # at the beginning
        if explanations:
            self.state["methods"] = list(model.given)
        if other is not None:
            name = other.loaded.name + " (2)" * (other.loaded.name in self._models)
            self._models[name] = NotebookModel(name, other)
            self.state |= {"page": "compare", "other": name}
        self._input = model.first

    def render_static(self) -> str | None:
        """Return the explanation or comparison as HTML without script; None without either."""
        a, *others = self._models.values()
        if others:
            method = next(iter(a.given), None) or others[0].explainer().default_method()
            fields = self._input.model_dump(include={"text", "pair", "target"})
            request = {**fields, "a": a.id, "b": others[0].id, "method": method}
            return build_input_document(self.answer("compare", request)).to_html(fragment=True)
        if not a.given:
            return None
        payload = merge_payloads([one.to_display_dict() for one in a.given.values()])
        return build_document([payload]).to_html(fragment=True)

    def __str__(self) -> str:
        text = self._input.picture or self._input.text
        return f"{' and '.join(self._models)} on {shorten_quote(text)!r}"

    def answer(
        self, ask: str, fields: Mapping[str, Any], progress: Progress = lambda done, total: None
    ) -> Any:
        """Return the answer to one question of the page, as JSON or as arrays by name."""
        if ask == "session":
            return self._describe_session()
        if ask not in answers.QUESTIONS:
            raise BadParameter(f"The page asked for {ask!r}, which nobody here can answer.")
        function = answers.QUESTIONS[ask]
        request = function.__annotations__["request"].model_validate(fields)
        models = [self._get_model(name) for name in answers.list_model_ids(request)]
        answer = function(*models, request, progress)
        return answer.model_dump() if isinstance(answer, BaseModel) else answer

    def _get_model(self, name: str) -> NotebookModel:
        if name not in self._models:
            raise UnknownModel(
                f"This workbench has no model {name!r}. It has: {', '.join(self._models)}."
            )
        return self._models[name]

    def _describe_session(self) -> dict[str, Any]:
        names = list(self._models)
        return {
            "version": __version__,
            "started": "kernel",
            "models": [model.to_entry() for model in self._models.values()],
            "compare": names if len(names) > 1 else None,
            "data": [],
            "samples": [{"text": self._input.text, "pair": self._input.pair}],
            "allow_load": False,
            "limits": Settings(upload=0, seconds=0).describe_limits(),
        }


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
            if not by_name.of_one:
                raise BadParameter(
                    f"The workbench shows one text or picture, and one thing about it. Got {len(by_name)}: open one "
                    "for each."
                )
            explanations = by_name.flatten()
    try:
        from whence.app.workbench import Workbench
    except ImportError:
        raise CannotServe(
            "The workbench in a notebook needs another package: pip install 'whence[notebook]'."
        ) from None
    other = None if against is None else _resolve_explainer(against)
    session = NotebookSession(explainer, explanations, text=text, about=about, other=other)
    return Workbench(session, {**session.state, **(state or {})})


def _list_explanations(what: Any) -> list[Explanation]:
    if isinstance(what, Explanation):
        return [what]
    return what.flatten() if isinstance(what, Explanations) and what.of_one else []


def _resolve_explainer(what: Any) -> Explainer:
    if isinstance(what, Explainer):
        return what
    if not isinstance(what, str | Path) and not hasattr(what, "config"):
        raise BadParameter(
            f"A workbench cannot be opened on {str(what)[:40]!r} ({type(what).__name__}). Give an explanation, an "
            'explainer, or what whence.load takes: whence.workbench("reviews", text).'
        )
    return load(what)


Text = Annotated[str, Field(description="a text")]
OptionalText = Annotated[str | None, Field(description="a text")]
Flag = Annotated[bool, Field(description="True or False")]
Count = Annotated[int, Field(ge=0)]
Pair = Annotated[tuple[Count, Count], Strict(False)]  # layer and head, or first and last layer
Share = Annotated[float, Field(ge=0, le=1)]


class ClassicState(schema.RequestModel):
    """The classic definition of flow, as the view has it."""

    threshold: float
    decay: float
    carry: bool


class ViewState(BaseModel):
    """The state of the view; the same names and values as in web/src/state/state.ts, which a test compares."""

    model_config = ConfigDict(extra="forbid", strict=True)

    page: Literal["explain", "compare", "data", "results", "runs", "help"] = "explain"
    model: Text = ""
    other: Text = ""
    text: Text = ""
    pair: OptionalText = None
    picture: OptionalText = None
    at: OptionalText = None
    entity: Count = Field(0, description="the number of something that was found, from 0")
    answer: OptionalText = None
    rather: OptionalText = None
    labels: Text = ""
    template: OptionalText = None
    methods: list[str] = Field([], description="a list of methods")  # empty: the model's default
    target: OptionalText = None
    of: Literal["logit", "probability"] = "logit"
    beside: list[str] = Field([], description="a list of targets")
    generate: Count | None = Field(None, description="a number of tokens")
    granularity: schema.Granularity = "token"
    weight: schema.WeightName = "attention"
    direction: schema.Direction = "back"
    token: Count | None = Field(None, description="the number of a token, from 0")
    # None: as much as is legible, at most half of the flow
    coverage: Share | None = Field(None, description="a share from 0 to 1")
    layers: Pair | None = Field(None, description="the first and the last layer, from 0")
    heads: list[Pair] = Field([], description="a list of heads, each a layer and a head")
    tokens: list[Count] = Field([], description="a list of numbers of tokens, from 0")
    segments: list[schema.SegmentPair] = Field([], description="a list of A>A, A>B, B>A, B>B")
    least: float = Field(0, ge=0, allow_inf_nan=False, description="a number of 0 or more")
    specials: Literal["gutter", "show", "hide"] = "gutter"
    classic: ClassicState | None = Field(
        None, strict=False, description="a threshold, a decay and a carry"
    )
    view: Literal["ladder", "rings", "sankey", "heatmap", "network"] = "ladder"
    statistic: Literal["entropy", "special", "gradient", "ablation"] = "entropy"
    thumbnails: Flag = False
    head: Pair | None = Field(None, description="a layer and a head, from 0")
    words: Flag = True
    strength: Share = Field(1, description="a share from 0 to 1")
    smooth: Flag = True
    difference: Flag = False
    data: OptionalText = None
    result: OptionalText = None
    card: OptionalText = None
    tab: Text = ""
    rows: Text = ""
    run: OptionalText = None
    found: Text = ""


DEFAULT_STATE: Mapping[str, Any] = ViewState.model_validate({}).model_dump()


def update_state(old: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the view state after a change; raise BadParameter for an unknown field or value."""
    for name, value in change.items():
        if name not in DEFAULT_STATE:
            known = list(DEFAULT_STATE)
            raise BadParameter(
                f"The view has no {name!r}.{suggest_name(str(name), known)} It has: {', '.join(known)}."
            )
        try:
            ViewState.model_validate({name: value})
        except ValidationError:
            raise _build_state_error(name, value) from None
    return {**DEFAULT_STATE, **old, **change}


def _build_state_error(name: str, value: Any) -> BadParameter:
    field = ViewState.model_fields[name]
    choices = list(get_args(field.annotation)) if get_origin(field.annotation) is Literal else []
    if choices:
        near = suggest_name(str(value), choices)
        return BadParameter(f"{name} must be one of {', '.join(choices)}. Got {value!r}.{near}")
    optional = ", or None" * (DEFAULT_STATE[name] is None)
    return BadParameter(f"{name} must be {field.description}{optional}. Got {value!r}.")
