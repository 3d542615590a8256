"""Answers to the page's requests: explanations, flow, heads, trust, generation, comparisons, data, help.

Each function takes a served model and a request, runs in the thread of that model and returns the documented
schema object. Requests over a data set (predictions, class words, head habits, comparison) are here as well.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from whence.app import models, schema
from whence.app.models import ServedModel
from whence.app.schema import (
    CompareDataRequest,
    CompareRequest,
    Comparison,
    Flow,
    FlowRequest,
    GenerateRequest,
    Generation,
    Habits,
    HabitsRequest,
    Heads,
    HeadsRequest,
    Input,
    InputComparison,
    PredictionTable,
    PredictRequest,
    Verification,
    VerifyRequest,
    WordsByClass,
    WordsRequest,
)
from whence.app.schema import Query as QueryRequest
from whence.core.errors import BadParameter, InputError, RequestError, WhenceError
from whence.core.progress import Progress

if TYPE_CHECKING:
    from whence.core.registry import Entry
    from whence.data.dataset import Dataset
    from whence.explain.explainer import Explainer
    from whence.explain.explanation import Explanation
    from whence.flow.graph import EdgeQuery


def explain_input(
    model: ServedModel, request: schema.ExplainRequest, progress: Progress
) -> schema.Explanations:
    """Return the explanations of one input by all methods that work; raise if none does."""
    from whence.explain.page import build_explanations_data

    per_entity, failed = _explain_with_fallback(
        model, request.input, list(dict.fromkeys(request.methods)), progress
    )
    explanations = list(models.select_entity(request.input, per_entity).values())
    payload = build_explanations_data(explanations, failed, _find_warnings(model, request.input))
    entities = [
        {"text": entity.text, "label": entity.label, "probability": entity.probability}
        for entity in models.find_entities(model, request.input)
    ]
    return schema.Explanations.model_validate({**payload, "entities": entities})


# Explanations by method; one dict per entity for a tagger without a position.
ExplanationsByMethod = list[dict[str, "Explanation"]]


def _explain_with_fallback(
    model: ServedModel, model_input: Input, methods: Sequence[str], progress: Progress
) -> tuple[ExplanationsByMethod, dict[str, str]]:
    """Return the explanations by all methods at once, or after an error one by one, and the errors."""
    try:
        return _explain_by_methods(model, model.explainer(), model_input, methods, progress), {}
    except (InputError, RequestError):
        raise
    except WhenceError as error:
        first = error
    groups: ExplanationsByMethod = []
    failed: dict[str, str] = {}
    for name in methods:
        try:
            extra = _explain_by_methods(model, model.explainer(), model_input, [name], progress)
            groups = [a | b for a, b in zip(groups, extra, strict=True)] if groups else extra
        except WhenceError as error:
            failed[name] = str(error)
    if not groups:
        raise first
    return groups, failed


def _explain_by_methods(
    model: ServedModel,
    explainer: "Explainer",
    model_input: Input,
    methods: Sequence[str],
    progress: Progress,
) -> ExplanationsByMethod:
    explanations = explainer.explain(
        model.resolve_input(model_input),
        method=list(methods),
        progress=progress,
        **model.build_options(model_input),
    )
    return explanations if isinstance(explanations, list) else [explanations]


def _find_warnings(model: ServedModel, model_input: Input) -> list[dict[str, str]]:
    """Return the warnings on an input; empty if the model cannot be inspected."""
    try:
        return model.inside(model_input).warnings()
    except WhenceError:  # the flow panel shows the error
        return []


def compute_flow(model: ServedModel, request: FlowRequest, progress: Progress) -> Flow:
    """Return the flow of one input through the model."""
    from whence.flow.classic import ClassicSettings

    classic = None if request.classic is None else ClassicSettings(**request.classic.model_dump())
    flow = model.inside(request.input).flow(
        request.weight,
        direction=request.direction,
        token=request.token,
        residual=request.residual,
        query=build_query(request.query),
        most=request.most,
        classic=classic,
    )
    return Flow.model_validate(flow)


def build_query(query: QueryRequest) -> "EdgeQuery":
    """Return the edge query of whence.flow for a query of the API."""
    from whence.flow.graph import EdgeQuery

    return EdgeQuery(
        layers=query.layers,
        heads=tuple(query.heads),
        tokens=tuple(query.tokens),
        segments=tuple(query.segments),
        least=query.least,
        specials=query.specials,
    )


def compute_head_statistic(model: ServedModel, request: HeadsRequest, progress: Progress) -> Heads:
    """Return one statistic for each head."""
    statistic = model.inside(request.input).head_statistic(request.statistic, progress)
    return Heads.model_validate(statistic)


def pack_tensors(model: ServedModel, model_input: Input, keys: Sequence[str]) -> bytes:
    """Return arrays of an inspected input as the bytes of a safetensors file."""
    from safetensors.numpy import save

    packed: bytes = save(model.inside(model_input).tensors(keys))
    return packed


def compute_trust(
    model: ServedModel, request: schema.TrustRequest, progress: Progress
) -> schema.TrustCard:
    """Return the trust card of some methods, with the fields that the page shows."""
    card = model.explainer().trust(
        model.resolve_input(request.input),
        method=list(dict.fromkeys(request.methods)),
        budget=request.budget,
        progress=progress,
        **model.build_options_of_one(request.input),
    )
    payload = {**card.to_dict(), "kind": "trust"}
    return schema.TrustCard.model_validate(
        {name: payload[name] for name in schema.TrustCard.model_fields}
    )


def explain_generation(
    model: ServedModel, request: GenerateRequest, progress: Progress
) -> Generation:
    """Return a generated continuation with the explanation of each of its tokens."""
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
    payload = generation.to_dict()
    payload.setdefault("warnings", [])
    return Generation.model_validate({name: payload[name] for name in Generation.model_fields})


def verify_edges(model: ServedModel, request: VerifyRequest, progress: Progress) -> Verification:
    """Return the effect of cutting edges, beside that of random edge sets."""
    verification = model.inside(request.input).verify(
        request.edges, draws=request.draws, seed=request.seed, progress=progress
    )
    return Verification.model_validate(verification)


def compare_on_input(
    a: ServedModel, b: ServedModel, request: CompareRequest, progress: Progress
) -> InputComparison:
    """Return the comparison of two models on one input, for the class that the second predicts."""
    from whence.studies.compare.compare import choose_common_target, list_target_warnings
    from whence.studies.compare.compare import compare_on_input as compare
    from whence.studies.compare.pair_measures import with_common_max_length

    # Both truncate at the smaller maximal length.
    readers = with_common_max_length(a.explainer(), b.explainer())
    inputs = [_build_input(model, request) for model in (a, b)]
    inside_a, inside_b = (
        model.inside(model_input, reader)
        for model, model_input, reader in zip((a, b), inputs, readers, strict=True)
    )
    if request.target is None and (label := choose_common_target(inside_a, inside_b)) is not None:
        inputs[0] = inputs[0].model_copy(update={"target": label})
        inside_a = a.inside(inputs[0], readers[0])
    warnings = list_target_warnings(inside_a, inside_b) if request.method is not None else []
    explanations = [
        _try_method(model, reader, model_input, request.method, progress, warnings)
        for model, reader, model_input in zip((a, b), readers, inputs, strict=True)
    ]
    comparison = compare(
        inside_a,
        inside_b,
        weight=request.weight,
        direction=request.direction,
        token=request.token,
        query=build_query(request.query),
        explanations=tuple(explanations),
    )
    return InputComparison.model_validate(
        {**comparison, "warnings": [*comparison["warnings"], *warnings]}
    )


def _build_input(model: ServedModel, request: CompareRequest) -> Input:
    return Input(
        model=model.id,
        text=request.text,
        pair=request.pair,
        # A model without labels, such as a language model, has no such target.
        target=request.target if model.explainer().labels else None,
        truncate=request.truncate,
    )


def _try_method(
    model: ServedModel,
    reader: "Explainer",
    model_input: Input,
    method: str | None,
    progress: Progress,
    warnings: list[dict[str, str]],
) -> "Explanation | None":
    """Return the explanation by a method; None without one, without labels, or after a warning."""
    from whence.studies.compare.compare import explain_or_warn

    if method is None or not reader.labels:
        return None
    return explain_or_warn(
        reader.loaded.name,
        method,
        lambda: _explain_by_methods(model, reader, model_input, [method], progress)[0][method],
        warnings,
    )


def check_quick(request: HeadsRequest) -> None:
    """Raise BadParameter for a head statistic that must be a job (ablation)."""
    if request.statistic == "ablation":
        raise BadParameter(
            "The statistic 'ablation' runs the model for each head: ask for it as a job, at /api/jobs/heads."
        )


def list_cards() -> list[dict[str, Any]]:
    """Return the help cards of all methods, metrics, experiments and edge weights."""
    from whence.methods import method
    from whence.metrics import metric
    from whence.studies.audit.experiments import experiment

    registered = {"method": method, "metric": metric, "experiment": experiment}
    cards = [
        _build_card(kind, entry) for kind, registry in registered.items() for entry in registry
    ]
    return [*cards, *_list_weight_cards()]


def _build_card(kind: str, entry: "Entry") -> dict[str, Any]:
    facts = {name: _to_json(value) for name, value in entry.facts.items() if not callable(value)}
    facts["parameters"] = [
        {"name": param.name, "allowed": param.allowed_values, "default": _to_json(param.default)}
        for param in entry.parameters.values()
    ]
    return {"kind": kind, "name": entry.name, "summary": entry.summary, "facts": facts}


def _list_weight_cards() -> list[dict[str, Any]]:
    from whence.flow.weights import EDGE_WEIGHT_CARDS

    cards = []
    for name, card in EDGE_WEIGHT_CARDS.items():
        facts = asdict(card)
        summary = facts.pop("summary")
        cards.append({"kind": "weight", "name": name, "summary": summary, "facts": facts})
    return cards


def _to_json(value: Any) -> Any:
    """Return a fact as JSON data; infinity, a missing bound, becomes null."""
    if isinstance(value, Mapping):
        return {str(name): _to_json(item) for name, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def predict_dataset(
    model: ServedModel, data: "Dataset", request: PredictRequest, progress: Progress
) -> PredictionTable:
    """Return the predictions of a data set."""
    from whence.studies.compare import dataset_view

    table = dataset_view.predict_dataset(
        model.explainer(), data, limit=request.limit, progress=progress
    )
    return PredictionTable.model_validate(table)


def find_class_words(
    model: ServedModel, data: "Dataset", request: WordsRequest, progress: Progress
) -> WordsByClass:
    """Return the words with the largest mean scores for each predicted class."""
    from whence.studies.compare import dataset_view

    words = dataset_view.summarise_words(
        model.explainer(),
        data,
        method=request.method,
        limit=request.limit,
        least=request.least,
        progress=progress,
    )
    return WordsByClass.model_validate(words)


def find_head_habits(
    model: ServedModel, data: "Dataset", request: HabitsRequest, progress: Progress
) -> Habits:
    """Return the kinds of tokens that each head attends to, over a data set."""
    from whence.studies.compare import dataset_view

    habits = dataset_view.summarise_heads(
        model.explainer(), data, limit=request.limit, progress=progress
    )
    return Habits.model_validate(habits)


def compare_over_dataset(
    a: ServedModel,
    b: ServedModel,
    data: "Dataset",
    request: CompareDataRequest,
    progress: Progress,
) -> Comparison:
    """Return the comparison of two models over a data set."""
    from whence.studies.compare.compare import compare

    comparison = compare(
        a.explainer(),
        b.explainer(),
        data,
        limit=request.limit,
        coverage=request.coverage,
        specials=request.specials,
        method=request.method,
        seed=request.seed,
        progress=progress,
    )
    return Comparison.model_validate(comparison.to_dict())
