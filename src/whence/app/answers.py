"""What is asked of a model, in its thread: from a request to the documented answer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whence.core.errors import (
    BadParameter,
    InputError,
    RequestError,
    WhenceError,
)
from whence.web import found
from whence.web.jobs import Progress
from whence.web.models import Model
from whence.web.schema import explain as told
from whence.web.schema.base import Input
from whence.web.schema.compare import CompareAsked, Compared
from whence.web.schema.flow import Flow, FlowAsked, Heads, HeadsAsked, Verified, VerifyAsked
from whence.web.schema.flow import Query as Wanted
from whence.web.schema.generate import GenerateAsked, Generated

if TYPE_CHECKING:
    from whence.explainer import Explainer, Explanation
    from whence.flow import Query


def explained(model: Model, asked: told.ExplainAsked, progress: Progress) -> told.Explanations:
    """Explain one input by all methods that can; if none can, say why the first cannot."""
    from whence.explainer.kept.told import told as tell

    every, failed = _tried(model, asked.input, list(dict.fromkeys(asked.methods)), progress)
    own = list(found.numbered(asked.input, every).values())
    payload = tell(own, failed, _warnings(model, asked.input))
    entities = [
        {"text": one.text, "label": one.label, "probability": one.probability}
        for one in found.entities(model, asked.input)
    ]
    return told.Explanations.model_validate({**payload, "entities": entities})


# What explaining gives: by method; of a tagger that was asked about no one place, for each thing it found.
Every = list[dict[str, "Explanation"]]


def _tried(
    model: Model, asked: Input, methods: Sequence[str], progress: Progress
) -> tuple[Every, dict[str, str]]:
    """Explain by all methods at once; where one fails, by each alone, to see which."""
    try:
        return _by(model, model.explainer(), asked, methods, progress), {}
    except (InputError, RequestError):
        raise
    except WhenceError as error:
        first = error
    every: Every = []
    failed: dict[str, str] = {}
    for name in methods:
        try:
            some = _by(model, model.explainer(), asked, [name], progress)
            every = [a | b for a, b in zip(every, some, strict=True)] if every else some
        except WhenceError as error:
            failed[name] = str(error)
    if not every:
        raise first
    return every, failed


def _by(
    model: Model, explainer: "Explainer", asked: Input, methods: Sequence[str], progress: Progress
) -> Every:
    every = explainer.explain(
        model.taken(asked), method=list(methods), progress=progress, **model.about(asked)
    )
    return every if isinstance(every, list) else [every]


def _warnings(model: Model, asked: Input) -> list[dict[str, str]]:
    """Say what to know first, as far as the model can be looked into."""
    try:
        return model.inside(asked).warnings()
    except WhenceError:  # the panel of the flow says why
        return []


def flow(model: Model, asked: FlowAsked, progress: Progress) -> Flow:
    """Trace what flowed through the model."""
    from whence.flow import Classic

    classic = None if asked.classic is None else Classic(**asked.classic.model_dump())
    found = model.inside(asked.input).flow(
        asked.weight,
        direction=asked.direction,
        token=asked.token,
        residual=asked.residual,
        query=query(asked.query),
        most=asked.most,
        classic=classic,
    )
    return Flow.model_validate(found)


def query(wanted: Wanted) -> "Query":
    """Return a query as the flow's own rooms know it."""
    from whence.flow import Query

    return Query(
        layers=wanted.layers,
        heads=tuple(wanted.heads),
        tokens=tuple(wanted.tokens),
        segments=tuple(wanted.segments),
        least=wanted.least,
        specials=wanted.specials,
    )


def heads(model: Model, asked: HeadsAsked, progress: Progress) -> Heads:
    """Give one number for each head."""
    found = model.inside(asked.input).head_statistic(asked.statistic, progress)
    return Heads.model_validate(found)


def tensors(model: Model, asked: Input, keys: Sequence[str]) -> bytes:
    """Give arrays as the bytes of a safetensors file."""
    from safetensors.numpy import save

    packed: bytes = save(model.inside(asked).tensors(keys))
    return packed


def trusted(model: Model, asked: told.TrustAsked, progress: Progress) -> told.TrustCard:
    """Test explanations, and return what the page shows of the card."""
    card = model.explainer().trust(
        model.taken(asked.input),
        method=list(dict.fromkeys(asked.methods)),
        budget=asked.budget,
        progress=progress,
        **model.about_one(asked.input),
    )
    payload = {**card.to_dict(), "kind": "trust"}
    return told.TrustCard.model_validate(
        {name: payload[name] for name in told.TrustCard.model_fields}
    )


def generated(model: Model, asked: GenerateAsked, progress: Progress) -> Generated:
    """Let a language model go on, and say where each of its tokens came from."""
    own = asked.input
    for name in ("picture", "target", "at", "entity", "rather", "labels", "template"):
        if getattr(own, name):
            raise BadParameter(
                f"{name}={getattr(own, name)!r} means nothing where each token of an answer is explained. Leave it "
                "out."
            )
    made = model.explainer().generate(
        model.taken(own),
        asked.tokens,
        method=asked.method,
        granularity=asked.granularity,
        answer=own.answer,
        of=own.of,
        truncate=own.truncate,
        progress=progress,
    )
    payload = made.to_dict()
    payload.setdefault("warnings", [])
    return Generated.model_validate({name: payload[name] for name in Generated.model_fields})


def verified(model: Model, asked: VerifyAsked, progress: Progress) -> Verified:
    """Cut edges, and as many random ones."""
    found = model.inside(asked.input).verify(
        asked.edges, draws=asked.draws, seed=asked.seed, progress=progress
    )
    return Verified.model_validate(found)


def compared(a: Model, b: Model, asked: CompareAsked, progress: Progress) -> Compared:
    """Hold two models against each other on one input, both about the class that the second predicts."""
    from whence.comparison import compared as compare
    from whence.comparison.aim import aim, aims_apart
    from whence.comparison.match import of_one_length

    # Both are cut where the one that takes less is.
    readers = of_one_length(a.explainer(), b.explainer())
    own = [_own(model, asked) for model in (a, b)]
    one, other = (
        model.inside(given, reader)
        for model, given, reader in zip((a, b), own, readers, strict=True)
    )
    if asked.target is None and (label := aim(one, other)) is not None:
        own[0] = own[0].model_copy(update={"target": label})
        one = a.inside(own[0], readers[0])
    warnings = aims_apart(one, other) if asked.method is not None else []
    explanations = [
        _one(model, reader, given, asked.method, progress, warnings)
        for model, reader, given in zip((a, b), readers, own, strict=True)
    ]
    found = compare(
        one,
        other,
        weight=asked.weight,
        direction=asked.direction,
        token=asked.token,
        query=query(asked.query),
        explanations=tuple(explanations),
    )
    return Compared.model_validate({**found, "warnings": [*found["warnings"], *warnings]})


def _own(model: Model, asked: CompareAsked) -> Input:
    return Input(
        model=model.id,
        text=asked.text,
        pair=asked.pair,
        # A label means nothing to a model whose outputs are words.
        target=asked.target if model.explainer().labels else None,
        truncate=asked.truncate,
    )


def _one(
    model: Model,
    reader: "Explainer",
    asked: Input,
    method: str | None,
    progress: Progress,
    warnings: list[dict[str, str]],
) -> "Explanation | None":
    """Explain by one method, if it is wanted and the model decides anything; where it fails, the rest is shown."""
    from whence.comparison.aim import tried

    if method is None or not reader.labels:
        return None
    return tried(
        reader.loaded.name,
        method,
        lambda: _by(model, reader, asked, [method], progress)[0][method],
        warnings,
    )


def not_quick(asked: HeadsAsked) -> None:
    """Refuse as a question what is a job."""
    if asked.statistic == "ablation":
        raise BadParameter(
            "The statistic 'ablation' runs the model for each head: ask for it as a job, at /api/jobs/heads."
        )


"""The cards of the help page, from what methods, metrics, experiments and edge weights say about themselves."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.core.registry import Entry


def cards() -> list[dict[str, Any]]:
    """Return every card, by kind and name."""
    from whence.audit.experiments import experiment
    from whence.methods import method
    from whence.metrics import metric

    registered = {"method": method, "metric": metric, "experiment": experiment}
    found = [_card(kind, entry) for kind, registry in registered.items() for entry in registry]
    return [*found, *_weights()]


def _card(kind: str, entry: "Entry") -> dict[str, Any]:
    facts = {name: _plain(value) for name, value in entry.facts.items() if not callable(value)}
    facts["parameters"] = [
        {"name": one.name, "allowed": one.allowed, "default": _plain(one.default)}
        for one in entry.parameters.values()
    ]
    return {"kind": kind, "name": entry.name, "summary": entry.summary, "facts": facts}


def _weights() -> list[dict[str, Any]]:
    from whence.flow import CARDS

    found = []
    for name, card in CARDS.items():
        facts = asdict(card)
        summary = facts.pop("summary")
        found.append({"kind": "weight", "name": name, "summary": summary, "facts": facts})
    return found


def _plain(value: Any) -> Any:
    """Return a fact as JSON can hold it; an end without a bound is null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)


"""What is asked of a model over a data set, in its thread."""

from typing import TYPE_CHECKING

from whence.web.jobs import Progress
from whence.web.models import Model
from whence.web.schema.compare import CompareDataAsked, Comparison
from whence.web.schema.data import (
    Habits,
    HabitsAsked,
    Leaning,
    PredictAsked,
    Predicted,
    WordsAsked,
)

if TYPE_CHECKING:
    from whence.data.sets.examples import Read


def predicted(model: Model, data: "Read", asked: PredictAsked, progress: Progress) -> Predicted:
    """Predict a data set."""
    from whence import survey

    found = survey.predictions(model.explainer(), data, limit=asked.limit, progress=progress)
    return Predicted.model_validate(found)


def leaning(model: Model, data: "Read", asked: WordsAsked, progress: Progress) -> Leaning:
    """Find the words that each class leans on."""
    from whence import survey

    found = survey.words(
        model.explainer(),
        data,
        method=asked.method,
        limit=asked.limit,
        least=asked.least,
        progress=progress,
    )
    return Leaning.model_validate(found)


def habits(model: Model, data: "Read", asked: HabitsAsked, progress: Progress) -> Habits:
    """Find what heads attend to."""
    from whence import survey

    found = survey.habits(model.explainer(), data, limit=asked.limit, progress=progress)
    return Habits.model_validate(found)


def comparison(
    a: Model, b: Model, data: "Read", asked: CompareDataAsked, progress: Progress
) -> Comparison:
    """Compare two models over a data set."""
    from whence.comparison import compare

    found = compare(
        a.explainer(),
        b.explainer(),
        data,
        limit=asked.limit,
        coverage=asked.coverage,
        specials=asked.specials,
        method=asked.method,
        seed=asked.seed,
        progress=progress,
    )
    return Comparison.model_validate(found.to_dict())
