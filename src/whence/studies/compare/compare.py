"""`whence.compare`: what changed between two models of one tokenizer, over a data set."""

import time
import warnings
from contextlib import ExitStack
from typing import Any

from whence.capture.asking.counted import counted
from whence.comparison.figures import figures
from whence.comparison.match import check_vocabulary, of_one_length
from whence.comparison.outcome import outcomes
from whence.comparison.result import VERSION, Comparison
from whence.comparison.seen import Seen, look
from whence.comparison.sentence import sentence
from whence.comparison.summary import Facts, Summary
from whence.comparison.words import TOP, agree, why_not
from whence.core.errors import BadParameter, NoHead, did_you_mean
from whence.data.sets.examples import Read, read, shuffled
from whence.explainer import Explainer, load
from whence.explainer.maker import FallbackWarning
from whence.explainer.request import BY_MODEL, requests
from whence.explainer.work import Progress, origin
from whence.flow import CLASS_FREE, NAMES, Name

_FILLERS = {"mask": 0, "pad": 0, "unk": 0}  # any: parameters are looked at before there is a model


def compare(
    base: Any,
    tuned: Any,
    data: Any,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    limit: int | None = None,
    weight: Name = "attention",
    coverage: float = 0.5,
    specials: bool = False,
    method: str | None = BY_MODEL,
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
    check(weight, coverage, method, limit, seed, specials)
    given = read(data, text=text, pair=pair, label=label)
    started = time.perf_counter()
    models = of_one_length(*(_explainer(one, device, dtype) for one in (base, tuned)))
    check_vocabulary(*models)
    given.refuse_labels([label for one in models for label in one.labels])
    _require_heads(models, weight)
    chosen = _chosen(given, limit, seed)
    without = "no method was asked for." if method is None else why_not(*models)
    tally = _Tally(progress, len(chosen) * (1 if without else 2))
    with ExitStack() as stack:
        runs = [
            stack.enter_context(counted(one))
            for one in {id(m.model): m.model for m in models}.values()
        ]
        seen = look(
            models,
            [given.examples[i] for i in chosen],
            weight=weight,
            coverage=coverage,
            specials=specials,
            truncate=truncate,
            seed=seed,
            done=tally.add,
        )
        summary = Summary(seen.order(), seed)
        attribution = None
        if method is not None and without is None:
            method = _usual(models[1]) if method == BY_MODEL else method
            attribution, without = _attribution(models, seen, method, truncate, summary, tally)
    first, second = (origin(one.loaded) for one in models)
    payload: Facts = {
        "version": VERSION,
        "kind": "comparison",
        "a": first["model"],
        "b": second["model"],
        "data": seen.facts(given, len(chosen)),
        "setting": {
            "weight": weight,
            "coverage": coverage,
            "specials": specials,
            "method": None if method == BY_MODEL else method,
            "truncate": truncate,
            "limit": limit,
            "seed": seed,
            "layers": seen.shape[0],
            "heads": seen.shape[1],
            "decision": _decision(models),
        },
        **figures(seen, summary, coverage, specials),
        "attribution": attribution,
        "without_attribution": without,
        "predictions": outcomes(models, seen.said, seen.examples, summary),
        "calls": {"forward": sum(one.forward for one in runs)},
        "provenance": second["provenance"],
    }
    payload["sentence"] = sentence(payload)
    payload["seconds"] = time.perf_counter() - started
    return Comparison(payload)


def check(
    weight: str,
    coverage: float,
    method: str | None,
    limit: int | None,
    seed: int,
    specials: bool = False,
) -> None:
    """Refuse what makes no sense, before anything is loaded for it."""
    if not isinstance(specials, bool):
        raise BadParameter(f"specials must be True or False. Got {specials!r}.")
    if weight not in NAMES:
        near = did_you_mean(str(weight), list(NAMES))
        raise BadParameter(f"weight must be one of {', '.join(NAMES)}. Got {weight!r}.{near}")
    if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 < coverage <= 1:
        raise BadParameter(f"coverage must be above 0 and at most 1. Got {coverage!r}.")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise BadParameter(f"limit must be a whole number, at least 1. Got {limit!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadParameter(f"seed must be a whole number. Got {seed!r}.")
    if method is not None and method != BY_MODEL:
        requests(method, None, _FILLERS)


def _usual(explainer: Explainer) -> str:
    """Return the default method of a model; which one it is, the result says, also where it stands in for another."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        return explainer.default_method()


class _Tally:
    """Counts inputs, once for attention and once for attributions, and tells who wants to know."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, inputs: int) -> None:
        self._done = min(self._total, self._done + inputs)
        if self._progress is not None:
            self._progress(self._done, self._total)


def _explainer(given: Any, device: str | None, dtype: str | None) -> Explainer:
    return given if isinstance(given, Explainer) else load(given, device=device, dtype=dtype)


def _require_heads(models: tuple[Explainer, Explainer], weight: str) -> None:
    """Refuse a weight that asks about a decision where there is none."""
    for one in models:
        if not one.loaded.classifies and weight not in CLASS_FREE:
            raise NoHead(
                f"{one.loaded.name!r} has no classification head, so there is no decision that the weight {weight!r} "
                "could be about. Take the weight attention, or give a model that classifies."
            )


def _chosen(given: Read, limit: int | None, seed: int) -> list[int]:
    if limit is None:
        return list(range(len(given)))
    return sorted(shuffled(given.examples, seed)[:limit])


def _decision(models: tuple[Explainer, Explainer]) -> str:
    """Say whose rows count as those that the decision reads."""
    heads = [one for one in models if one.loaded.classifies]
    if len(heads) == 2:
        return "the rows that each model's decision reads"
    if heads:
        return f"the rows that the decision of {heads[0].loaded.name} reads; the other model has no head"
    return "the row of the token that a classifier would read; neither model has a head"


def _attribution(
    models: tuple[Explainer, Explainer],
    seen: Seen,
    method: str,
    truncate: bool,
    summary: Summary,
    tally: _Tally,
) -> tuple[Facts | None, str | None]:
    """Compare what the words count for, by both models; or say why not."""
    targets = [one for one in seen.said[1] if one is not None]
    inputs = [example.given for example in seen.examples]
    found, why = agree(models, inputs, targets, method, truncate, tally.add)
    if why is not None:
        return None, why
    return {
        "method": method,
        "tau": summary.mean(found.tau),
        "top": summary.mean(found.top),
        "k": TOP,
        "chance": summary.mean(found.chance),
    }, None


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


"""Two models on one input: their flows, what differs between these, and how far each head is from its twin."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from whence.comparison.match import check_shape, check_tokens
from whence.comparison.rows import Array, read_rows
from whence.explainer import Explanation, Inside
from whence.explainer.work import origin
from whence.flow import Direction, Name, Query, difference, divergence, possible, trace_flow

_EDGES = 5000

Given = Explanation | Mapping[str, Any] | None


def compared(
    a: Inside,
    b: Inside,
    *,
    weight: Name = "attention",
    direction: Direction = "back",
    token: int | None = None,
    query: Query | None = None,
    most: int = _EDGES,
    explanations: Sequence[Given] = (None, None),
) -> dict[str, Any]:
    """Return two models on one input as the documented object.

    `a` and `b` are what `explainer.inside(...)` gave for the same text. `weight` to `most` are those of
    `Inside.flow`. `explanations`: one for each model, or None.
    """
    names = (a.loaded.name, b.loaded.name)
    check_tokens(a.source.text, a.tokens, b.tokens, names)
    check_shape((a.layers, a.heads), (b.layers, b.heads), names)
    asked = query or Query()
    rows = read_rows(a, b)
    sides = list(zip((a, b), rows, strict=True))
    flows = [
        side.flow(weight, direction=direction, token=token, query=asked, most=most, rows=read)
        for side, read in sides
    ]
    first, second = (
        trace_flow(side.weights(weight), read, direction, token) for side, read in sides
    )
    mean, decision = divergence(a.attention(), b.attention(), (rows[0] + rows[1]) / 2)
    return {
        "kind": "compared",
        "a": origin(a.loaded)["model"],
        "b": origin(b.loaded)["model"],
        "input": asdict(a.source),
        "tokens": [asdict(one) for one in a.tokens],
        "words": [asdict(one) for one in a.words],
        "predictions": [_prediction(side) for side in (a, b)],
        "flows": flows,
        "difference": difference(first, second, most, asked, a.special, a.segments).to_dict(),
        "possible": possible(first, second, asked, a.special, a.segments),
        "divergence": mean.tolist(),
        "decision": decision.tolist(),
        "layers": mean.mean(1).tolist(),
        "changed": _changed(mean, decision),
        "explanations": [_explanation(one) for one in explanations],
        "warnings": [
            {"code": one["code"], "message": _named(side.loaded.name, one["message"])}
            for side in ((a, b) if a.loaded is not b.loaded else (a,))
            for one in side.warnings()
        ],
    }


def _named(name: str, message: str) -> str:
    return message if message.startswith(name) else f"{name}: {message}"


def _prediction(inside: Inside) -> dict[str, Any] | None:
    said = inside.prediction
    if said is None:
        return None
    return {**asdict(said), "logits": list(said.logits)}


def _changed(mean: Array, read: Array) -> list[dict[str, Any]]:
    """Return the heads, the most changed first; those that did not change are not among them."""
    heads = mean.shape[1]
    order = sorted(range(mean.size), key=lambda place: (-float(mean.flat[place]), place))
    places = [divmod(place, heads) for place in order]
    return [
        {
            "layer": layer,
            "head": head,
            "divergence": float(mean[layer, head]),
            "decision": float(read[layer, head]),
        }
        for layer, head in places
        if mean[layer, head] > 0
    ]


def _explanation(given: Given) -> dict[str, Any] | None:
    if isinstance(given, Explanation):
        return dict(given.to_dict()["explanations"][0])
    return None if given is None else dict(given)
