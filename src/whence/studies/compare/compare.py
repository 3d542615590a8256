"""The `compare` function for two models over a data set, and the comparison of two models on one input.

Both models are explained for the same class, the one that the second model predicts, so that their scores
can be compared; models without common labels are each explained for their own prediction, with a warning.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from whence.core.errors import (
    BadParameter,
    InputError,
    NoHead,
    RequestError,
    WhenceError,
    suggest_name,
)
from whence.core.progress import Progress, ProgressCounter
from whence.core.result import RESULT_VERSION
from whence.data.dataset import read_dataset
from whence.explain.examine import FallbackWarning
from whence.explain.explainer import Explainer, load
from whence.explain.explanation import Explanation
from whence.explain.inside import Inside
from whence.explain.pipeline import describe_origin
from whence.explain.request import DEFAULT_OF_MODEL, resolve_methods
from whence.flow.graph import (
    Direction,
    EdgeQuery,
    compute_flow_difference,
    count_possible_edges,
    trace_flow,
)
from whence.flow.heads import compute_head_divergence
from whence.flow.weights import CLASS_FREE_WEIGHTS, EDGE_WEIGHT_NAMES, EdgeWeightName
from whence.studies.compare.comparison import Comparison
from whence.studies.compare.pair_measures import (
    TOP_WORDS,
    Floats,
    check_shape,
    check_tokens,
    check_vocabulary,
    compare_explanations,
    describe_incomparability,
    format_labels,
    measure_models,
    select_decision_rows,
    with_common_max_length,
)
from whence.studies.compare.summary import (
    InputStatistics,
    JsonDict,
    compare_predictions,
    compute_comparison_statistics,
    describe_comparison,
)
from whence.tracing.ask import count_forwards

WarningEntry = dict[str, str]


def choose_common_target(a: Inside, b: Inside) -> str | None:
    """Return the label to explain in the first model, if it is not the first model's own prediction.

    Both models are explained for the class that the second predicts. None: the first predicts the same, or has no such
    label.
    """
    first, other = a.prediction, b.prediction
    if first is None or other is None or first.label == other.label or not _has_same_outputs(a, b):
        return None
    return other.label


def list_target_warnings(a: Inside, b: Inside) -> list[WarningEntry]:
    """Return a warning if the models' outputs differ, and each is explained for its own prediction."""
    if a.prediction is None or b.prediction is None or _has_same_outputs(a, b):
        return []
    labels = f"{format_labels(a.loaded.labels)}; {format_labels(b.loaded.labels)}"
    return [
        {
            "code": "other-labels",
            "message": f"The models have different labels or tasks ({labels}): each is explained for what it "
            "predicts itself, and the scores of the one say nothing about those of the other.",
        }
    ]


def explain_or_warn(
    name: str, method: str, explain: Callable[[], Explanation], warnings: list[WarningEntry]
) -> Explanation | None:
    """Return an explanation; if the method cannot explain the model, add a warning and return None."""
    try:
        return explain()
    except (InputError, RequestError):
        raise
    except WhenceError as error:
        message = f"{name} could not be explained by {method}: {error}"
        warnings.append({"code": error.code, "message": message})
        return None


def _has_same_outputs(a: Inside, b: Inside) -> bool:
    return a.loaded.labels == b.loaded.labels and a.loaded.task == b.loaded.task


def compare(
    base: Any,
    tuned: Any,
    data: Any,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    limit: int | None = None,
    weight: EdgeWeightName = "attention",
    coverage: float = 0.5,
    specials: bool = False,
    method: str | None = DEFAULT_OF_MODEL,
    truncate: bool = True,
    seed: int = 0,
    device: str | None = None,
    dtype: str | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two models of one tokenizer over a data set, such as a pre-trained model and a fine-tuned one.

    `base` and `tuned`: what `whence.load` takes, or an `Explainer`. `data`: a file, a Hugging Face data set by name,
    a table (a frame of pandas or polars), or a list of examples; `text`, `pair` and `label` name its columns.
    `limit`: draw so many examples. `weight` and `coverage`: the edges whose overlap is counted are the fewest that
    carry this share of the flow back from the decision; those that end on special tokens are among them only with
    `specials`. `method`: how words are scored, for models that have a head; "default" is what explains `tuned` where
    no method is named, None leaves it out.
    `progress` is called with (done, in all).
    """
    check_compare_parameters(weight, coverage, method, limit, seed, specials)
    dataset = read_dataset(data, text=text, pair=pair, label=label)
    started = time.perf_counter()
    models = with_common_max_length(
        *(
            model if isinstance(model, Explainer) else load(model, device=device, dtype=dtype)
            for model in (base, tuned)
        )
    )
    check_vocabulary(*models)
    dataset.check_pairs([label for model in models for label in model.labels])
    for model in models:
        if not model.loaded.is_classifier and weight not in CLASS_FREE_WEIGHTS:
            raise NoHead(
                f"{model.loaded.name!r} has no classification head, so there is no decision that the weight {weight!r} "
                "could be about. Take the weight attention, or give a model that classifies."
            )
    examples = (dataset if limit is None else dataset.draw(limit, seed)).examples
    without = "no method was asked for." if method is None else describe_incomparability(*models)
    tally = ProgressCounter(progress, len(examples) * (1 if without else 3))
    with ExitStack() as stack:
        runs = [
            stack.enter_context(count_forwards(model))
            for model in {id(m.model): m.model for m in models}.values()
        ]
        measures = measure_models(
            models,
            examples,
            weight=weight,
            coverage=coverage,
            specials=specials,
            truncate=truncate,
            seed=seed,
            advance=tally.add,
        )
        order = sorted(range(len(measures.examples)), key=lambda i: repr(measures.examples[i]))
        summary = InputStatistics(order, seed)
        attribution: JsonDict | None = None
        if method is not None and without is None:
            if method == DEFAULT_OF_MODEL:
                with warnings.catch_warnings():  # the result names the method
                    warnings.simplefilter("ignore", FallbackWarning)
                    method = models[1].default_method()
            agreement, without = compare_explanations(models, measures, method, truncate, tally.add)
            if without is None:
                figures = {name: summary.mean(values) for name, values in agreement.items()}
                attribution = {"method": method, **figures, "k": TOP_WORDS}
    tally.expect(0)  # some inputs may not be usable
    first, second = (describe_origin(model.loaded) for model in models)
    payload: JsonDict = {
        "version": RESULT_VERSION,
        "kind": "comparison",
        "a": first["model"],
        "b": second["model"],
        "data": measures.facts(dataset, len(examples)),
        "setting": {
            "weight": weight,
            "coverage": coverage,
            "specials": specials,
            "method": None if method == DEFAULT_OF_MODEL else method,
            "truncate": truncate,
            "limit": limit,
            "seed": seed,
            "layers": measures.shape[0],
            "heads": measures.shape[1],
            "decision": _describe_decision_rows(models),
        },
        **compute_comparison_statistics(measures, summary, coverage, specials),
        "attribution": attribution,
        "without_attribution": without,
        "predictions": compare_predictions(
            models, measures.predictions, measures.examples, summary
        ),
        "calls": {"forward": sum(run.forward for run in runs)},
        "provenance": second["provenance"],
    }
    payload["sentence"] = describe_comparison(payload)
    payload["seconds"] = time.perf_counter() - started
    return Comparison(payload)


def check_compare_parameters(
    weight: str,
    coverage: float,
    method: str | None,
    limit: int | None,
    seed: int,
    specials: bool = False,
) -> None:
    """Refuse invalid parameters before anything is loaded."""
    if not isinstance(specials, bool):
        raise BadParameter(f"specials must be True or False. Got {specials!r}.")
    if weight not in EDGE_WEIGHT_NAMES:
        near = suggest_name(str(weight), list(EDGE_WEIGHT_NAMES))
        raise BadParameter(
            f"weight must be one of {', '.join(EDGE_WEIGHT_NAMES)}. Got {weight!r}.{near}"
        )
    if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 < coverage <= 1:
        raise BadParameter(f"coverage must be above 0 and at most 1. Got {coverage!r}.")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise BadParameter(f"limit must be a whole number, at least 1. Got {limit!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadParameter(f"seed must be a whole number. Got {seed!r}.")
    if method is not None and method != DEFAULT_OF_MODEL:
        # Any ids of replacement tokens will do: the model is not loaded yet.
        resolve_methods(method, None, {"mask": 0, "pad": 0, "unk": 0})


def _describe_decision_rows(models: tuple[Explainer, Explainer]) -> str:
    """Describe the rows that count as read by the decision."""
    heads = [model for model in models if model.loaded.is_classifier]
    if len(heads) == 2:
        return "the rows that each model's decision reads"
    if heads:
        return f"the rows that the decision of {heads[0].loaded.name} reads; the other model has no head"
    return "the row of the token that a classifier would read; neither model has a head"


def compare_on_input(
    a: Inside,
    b: Inside,
    *,
    weight: EdgeWeightName = "attention",
    direction: Direction = "back",
    token: int | None = None,
    query: EdgeQuery | None = None,
    most: int = 5000,
    explanations: Sequence[Explanation | None] = (None, None),
) -> dict[str, Any]:
    """Compare two models on one input; return the documented object.

    `a` and `b` are the results of `explainer.inside(...)` for the same text. `weight` to `most` are those of
    `Inside.flow`. `explanations`: one for each model, or None.
    """
    names = (a.loaded.name, b.loaded.name)
    check_tokens(a.source.text, a.tokens, b.tokens, names)
    check_shape((a.layers, a.heads), (b.layers, b.heads), names)
    edge_query = query or EdgeQuery()
    rows = select_decision_rows(a, b)
    sides = list(zip((a, b), rows, strict=True))
    flows = [
        side.flow(weight, direction=direction, token=token, query=edge_query, most=most, rows=read)
        for side, read in sides
    ]
    first, second = (
        trace_flow(side.weights(weight), read, direction, token) for side, read in sides
    )
    mean, decision = compute_head_divergence(a.attention(), b.attention(), (rows[0] + rows[1]) / 2)
    return {
        "kind": "compared",
        "a": describe_origin(a.loaded)["model"],
        "b": describe_origin(b.loaded)["model"],
        "input": asdict(a.source),
        "tokens": [asdict(item) for item in a.tokens],
        "words": [asdict(word) for word in a.words],
        "predictions": [
            side.prediction and {**asdict(side.prediction), "logits": list(side.prediction.logits)}
            for side in (a, b)
        ],
        "flows": flows,
        "difference": compute_flow_difference(
            first, second, most, edge_query, a.special, a.segments
        ),
        "possible": count_possible_edges(first, second, edge_query, a.special, a.segments),
        "divergence": mean.tolist(),
        "decision": decision.tolist(),
        "layers": mean.mean(1).tolist(),
        "changed": _list_changed_heads(mean, decision),
        "explanations": [one and one.to_dict()["explanations"][0] for one in explanations],
        "warnings": [
            row
            if row["message"].startswith(side.loaded.name)
            else {**row, "message": f"{side.loaded.name}: {row['message']}"}
            for side in ((a, b) if a.loaded is not b.loaded else (a,))
            for row in side.warnings()
        ],
    }


def _list_changed_heads(mean: Floats, read: Floats) -> list[dict[str, Any]]:
    """Return the heads that changed, the most changed first."""
    order = sorted(range(mean.size), key=lambda place: (-float(mean.flat[place]), place))
    return [
        {
            "layer": place // mean.shape[1],
            "head": place % mean.shape[1],
            "divergence": float(mean.flat[place]),
            "decision": float(read.flat[place]),
        }
        for place in order
        if mean.flat[place] > 0
    ]
