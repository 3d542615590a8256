"""What is asked of a model, in its thread: from a request to the documented answer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whence.core.errors import (
    BadParameter,
    InputError,
    RequestError,
    WhenceError,
)
from whence.web.jobs import Progress
from whence.web.models import Model
from whence.web.schema import explain as told
from whence.web.schema.common import Input
from whence.web.schema.compare import CompareAsked, Compared
from whence.web.schema.flow import Flow, FlowAsked, Heads, HeadsAsked, Verified, VerifyAsked
from whence.web.schema.flow import Query as Wanted

if TYPE_CHECKING:
    from whence.explainer import Explainer, Explanation
    from whence.flow import Query


def explained(model: Model, asked: told.ExplainAsked, progress: Progress) -> told.Explanations:
    """Explain one input by all methods that can; if none can, say why the first cannot."""
    from whence.explainer.told import told as tell

    found, failed = _tried(model, asked.input, list(dict.fromkeys(asked.methods)), progress)
    warnings = model.inside(asked.input).warnings()
    payload = tell(found, failed, warnings)
    return told.Explanations.model_validate(payload)


def _tried(
    model: Model, asked: Input, methods: Sequence[str], progress: Progress
) -> tuple[list["Explanation"], dict[str, str]]:
    """Explain by all methods at once; where one fails, by each alone, to see which."""
    try:
        return list(_by(model.explainer(), asked, methods, progress).values()), {}
    except (InputError, RequestError):
        raise
    except WhenceError as error:
        first = error
    found: list[Explanation] = []
    failed: dict[str, str] = {}
    for name in methods:
        try:
            found += _by(model.explainer(), asked, [name], progress).values()
        except WhenceError as error:
            failed[name] = str(error)
    if not found:
        raise first
    return found, failed


def _by(
    explainer: "Explainer", asked: Input, methods: Sequence[str], progress: Progress
) -> dict[str, "Explanation"]:
    found: dict[str, Explanation] = explainer.explain(
        given(asked),
        method=list(methods),
        target=asked.target,
        of=asked.of,
        truncate=asked.truncate,
        progress=progress,
    )
    return found


def given(asked: Input | CompareAsked) -> Any:
    """Return the text, or both of a pair."""
    return asked.text if asked.pair is None else (asked.text, asked.pair)


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
        given(asked.input),
        method=list(dict.fromkeys(asked.methods)),
        target=asked.input.target,
        of=asked.input.of,
        truncate=asked.input.truncate,
        budget=asked.budget,
        progress=progress,
    )
    payload = {**card.to_dict(), "kind": "trust"}
    return told.TrustCard.model_validate(
        {name: payload[name] for name in told.TrustCard.model_fields}
    )


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
        _one(reader, given, asked.method, progress, warnings)
        for reader, given in zip(readers, own, strict=True)
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
        target=asked.target,
        truncate=asked.truncate,
    )


def _one(
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
        lambda: _by(reader, asked, [method], progress)[method],
        warnings,
    )


def not_quick(asked: HeadsAsked) -> None:
    """Refuse as a question what is a job."""
    if asked.statistic == "ablation":
        raise BadParameter(
            "The statistic 'ablation' runs the model for each head: ask for it as a job, at /api/jobs/heads."
        )
