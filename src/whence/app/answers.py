"""Answers to the page's questions: explanations, flow, heads, trust, generation, comparisons, data, help.

Each function takes a model and a request, runs in the thread of that model and returns the documented schema
object. The HTTP routes and the notebook widget share them.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

from whence.app import schema
from whence.app.models import ServedModel, select_entity
from whence.core.errors import BadParameter, InputError, RequestError, WhenceError
from whence.core.progress import Progress
from whence.core.registry import Entry
from whence.data.dataset import Dataset
from whence.explain.explainer import Explainer
from whence.explain.explanation import Explanation
from whence.explain.page import build_explanations_data
from whence.flow.classic import ClassicSettings
from whence.flow.graph import EdgeQuery
from whence.flow.weights import EDGE_WEIGHT_CARDS
from whence.methods import method
from whence.metrics import metric
from whence.studies.audit.experiments import experiment
from whence.studies.compare import dataset_view
from whence.studies.compare.compare import (
    choose_common_target,
    compare,
    compare_on_input,
    explain_or_warn,
    list_target_warnings,
)
from whence.studies.compare.pair_measures import with_common_max_length


def explain_input(
    model: ServedModel, request: schema.ExplainRequest, progress: Progress
) -> schema.Explanations:
    """Explain one input by those of several methods that work; raise if none does."""
    per_entity, failed = _explain_with_fallback(model, request, progress)
    explanations = select_entity(request.input, per_entity)
    try:
        warnings = model.inside(request.input).warnings()
    except WhenceError:  # the flow panel shows the error
        warnings = []
    entities = [
        {"text": entity.text, "label": entity.label, "probability": entity.probability}
        for entity in model.find_entities(request.input)
    ]
    payload = build_explanations_data(explanations, failed, warnings)
    return schema.Explanations.model_validate({**payload, "entities": entities})


def _explain_with_fallback(
    model: ServedModel, request: schema.ExplainRequest, progress: Progress
) -> tuple[list[list[Explanation]], dict[str, str]]:
    """Return the explanations by all methods at once, or after an error one by one, and the errors."""
    methods = list(dict.fromkeys(request.methods))
    try:
        return model.explain(request.input, methods, progress), {}
    except (InputError, RequestError):
        raise
    except WhenceError as error:
        first = error
    groups: list[list[Explanation]] = []
    failed: dict[str, str] = {}
    for name in methods:
        try:
            extra = model.explain(request.input, [name], progress)
            groups = [a + b for a, b in zip(groups, extra, strict=True)] if groups else extra
        except WhenceError as error:
            failed[name] = str(error)
    if not groups:
        raise first
    return groups, failed


def compute_flow(
    model: ServedModel, request: schema.FlowRequest, progress: Progress
) -> schema.Flow:
    """Compute the flow through the model for one input."""
    options = {name: value for name, value in request if name != "input"}
    options["query"] = EdgeQuery(**dict(request.query))
    if request.classic is not None:
        options["classic"] = ClassicSettings(**dict(request.classic))
    return schema.Flow.model_validate(model.inside(request.input).flow(**options))


def compute_head_statistic(
    model: ServedModel, request: schema.HeadsRequest, progress: Progress
) -> schema.Heads:
    """Give one number for each head; "ablation" runs the model for each, and is a job."""
    return schema.Heads.model_validate(
        model.inside(request.input).head_statistic(request.statistic, progress)
    )


def read_tensors(
    model: ServedModel, request: schema.TensorsRequest, progress: Progress
) -> dict[str, np.ndarray[Any, Any]]:
    """Give attention in bulk: single maps in float32, or all of them as thumbnails."""
    return model.inside(request.input).tensors(request.keys)


def compute_trust(
    model: ServedModel, request: schema.TrustRequest, progress: Progress
) -> schema.TrustCard:
    """Test explanations on this very input."""
    card = model.explainer().trust(
        model.resolve_input(request.input),
        method=list(dict.fromkeys(request.methods)),
        budget=request.budget,
        progress=progress,
        **model.build_options_of_one(request.input),
    )
    return schema.TrustCard.model_validate({**card.to_dict(), "kind": "trust"})


def explain_generation(
    model: ServedModel, request: schema.GenerateRequest, progress: Progress
) -> schema.Generation:
    """Let a language model continue a prompt, and explain each token of its answer."""
    model_input = request.input
    for name in ("picture", "target", "at", "entity", "rather", "labels", "template"):
        if getattr(model_input, name):
            raise BadParameter(
                f"{name}={getattr(model_input, name)!r} means nothing where each token of an answer is explained. Leave it "
                "out."
            )
    generation = model.explainer().generate(
        model.resolve_input(model_input),
        request.tokens,
        method=request.method,
        granularity=request.granularity,
        answer=model_input.answer,
        of=model_input.of,
        truncate=model_input.truncate,
        progress=progress,
    )
    return schema.Generation.model_validate(generation.to_dict())


def verify_edges(
    model: ServedModel, request: schema.VerifyRequest, progress: Progress
) -> schema.Verification:
    """Knock edges out, and as many random ones."""
    return schema.Verification.model_validate(
        model.inside(request.input).verify(
            request.edges, draws=request.draws, seed=request.seed, progress=progress
        )
    )


def compare_models(
    a: ServedModel, b: ServedModel, request: schema.CompareRequest, progress: Progress
) -> schema.InputComparison:
    """Hold two models against each other on one input, for the class that the second predicts."""
    # Both truncate at the smaller maximal length.
    readers = with_common_max_length(a.explainer(), b.explainer())
    fields = request.model_dump(include={"text", "pair", "truncate"})
    # A model without labels, such as a language model, has no such target.
    inputs = [
        schema.Input(model=model.id, target=request.target if reader.labels else None, **fields)
        for model, reader in zip((a, b), readers, strict=True)
    ]
    insides = [
        model.inside(model_input, reader)
        for model, model_input, reader in zip((a, b), inputs, readers, strict=True)
    ]
    if request.target is None and (label := choose_common_target(*insides)) is not None:
        inputs[0] = inputs[0].model_copy(update={"target": label})
        insides[0] = a.inside(inputs[0], readers[0])
    method = request.method
    warnings = [] if method is None else list_target_warnings(*insides)

    def explain(model: ServedModel, model_input: schema.Input, reader: Explainer) -> Any:
        if method is None or not reader.labels:
            return None
        return explain_or_warn(
            reader.loaded.name,
            method,
            lambda: model.explain(model_input, [method], progress, reader)[0][0],
            warnings,
        )

    comparison = compare_on_input(
        *insides,
        weight=request.weight,
        direction=request.direction,
        token=request.token,
        query=EdgeQuery(**dict(request.query)),
        explanations=list(map(explain, (a, b), inputs, readers)),
    )
    return schema.InputComparison.model_validate(
        {**comparison, "warnings": [*comparison["warnings"], *warnings]}
    )


def predict_dataset(
    model: ServedModel, request: schema.PredictRequest, progress: Progress, data: Dataset
) -> schema.PredictionTable:
    """Predict a data set."""
    options = request.model_dump(exclude={"model"})
    table = dataset_view.predict_dataset(model.explainer(), data, progress=progress, **options)
    return schema.PredictionTable.model_validate(table)


def find_class_words(
    model: ServedModel, request: schema.WordsRequest, progress: Progress, data: Dataset
) -> schema.WordsByClass:
    """Find the words that each class leans on, those with the largest mean scores."""
    options = request.model_dump(exclude={"model"})
    words = dataset_view.summarise_words(model.explainer(), data, progress=progress, **options)
    return schema.WordsByClass.model_validate(words)


def find_head_habits(
    model: ServedModel, request: schema.HabitsRequest, progress: Progress, data: Dataset
) -> schema.Habits:
    """Count the kinds of positions that heads attend to."""
    options = request.model_dump(exclude={"model"})
    habits = dataset_view.summarise_heads(model.explainer(), data, progress=progress, **options)
    return schema.Habits.model_validate(habits)


def compare_over_dataset(
    a: ServedModel,
    b: ServedModel,
    request: schema.CompareDataRequest,
    progress: Progress,
    data: Dataset,
) -> schema.Comparison:
    """Compare two models over a data set."""
    options = request.model_dump(exclude={"a", "b", "data"})
    comparison = compare(a.explainer(), b.explainer(), data, progress=progress, **options)
    return schema.Comparison.model_validate(comparison.to_dict())


# What the page asks, by name: one input of a model or of two, and a data set. The type of the argument `request` is
# the request's, what is returned the answer's; the first line of the docstring describes both in openapi.json.
Answer = Callable[..., Any]
QUESTIONS: Mapping[str, Answer] = {
    "explain": explain_input,
    "flow": compute_flow,
    "heads": compute_head_statistic,
    "tensors": read_tensors,
    "trust": compute_trust,
    "verify": verify_edges,
    "generate": explain_generation,
    "compare": compare_models,
}
DATASET_QUESTIONS: Mapping[str, Answer] = {
    "predict": predict_dataset,
    "words": find_class_words,
    "habits": find_head_habits,
}


def list_model_ids(request: Any) -> list[str]:
    """Return the one model or the two that a request is put to."""
    if isinstance(request, schema.CompareRequest | schema.CompareDataRequest):
        return [request.a, request.b]
    return [getattr(request, "input", request).model]


def list_cards() -> list[dict[str, Any]]:
    """Return the help cards of all methods, metrics, experiments and edge weights."""
    registered = {"method": method, "metric": metric, "experiment": experiment}
    cards = [
        _build_card(kind, entry) for kind, registry in registered.items() for entry in registry
    ]
    for name, card in EDGE_WEIGHT_CARDS.items():
        facts = asdict(card)
        summary = facts.pop("summary")
        cards.append({"kind": "weight", "name": name, "summary": summary, "facts": facts})
    return cards


def _build_card(kind: str, entry: Entry) -> dict[str, Any]:
    facts = {name: value for name, value in entry.facts.items() if not callable(value)}
    facts["parameters"] = [
        {"name": param.name, "allowed": param.allowed_values, "default": param.default}
        for param in entry.parameters.values()
    ]
    return {"kind": kind, "name": entry.name, "summary": entry.summary, "facts": _to_json(facts)}


def _to_json(facts: Mapping[str, Any]) -> Any:
    """Return facts as JSON data; infinity, a missing bound, becomes null."""
    ordered = {
        name: sorted(map(str, value)) if isinstance(value, frozenset | set) else value
        for name, value in facts.items()
    }
    return to_jsonable_python(ordered, inf_nan_mode="null", fallback=str)
