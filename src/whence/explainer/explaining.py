"""Explaining inputs: taken in, aimed at, in batches, and returned in the shape in which they were asked for."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from whence.capture import trace
from whence.capture.memory.fitting import fitting_batches
from whence.capture.target import predictions
from whence.core.types import Prediction
from whence.data import batches
from whence.explainer.aims import Aimed, Asked, aim, by_target, shaped
from whence.explainer.aims.each import Failed, aim_each
from whence.explainer.explanation import Explanation
from whence.explainer.intake import take, warn_of_unknown
from whence.explainer.maker import Maker
from whence.explainer.request import Request, requests
from whence.explainer.verify.testing import explained, inputs_of
from whence.explainer.work import Progress, Tally


def explanations(
    maker: Maker,
    given: Any,
    about: Asked,
    *,
    method: str | Sequence[str] | None,
    params: Mapping[str, Any] | None,
    batch_size: int,
    progress: Progress | None,
) -> Any:
    """Explain one input or several; see `Explainer.explain`."""
    maker.require_head()
    method = maker.method(about.reads) if method is None else method
    asked = requests(method, params, maker.suited(about.reads).fillers)
    items, single = take(given, maker.loaded, truncate=about.truncate, reads=about.reads)
    warn_of_unknown(items, maker.loaded)
    parts = [
        (rows, aim(maker.loaded, [items[row] for row in rows], own))
        for rows, own in by_target(about, len(items))
    ]
    tally = Tally(progress, [item for _, aimed in parts for item in aimed.items], asked)
    facts = maker.facts()
    every: list[Any] = [None] * len(items)
    for rows, aimed in parts:
        results = _results(maker, aimed, asked, batch_size=batch_size, facts=facts, tally=tally)
        found: list[Any] = [*results]
        if aimed.owners is not None:
            found = shaped(aimed, results, asked, method)
        elif isinstance(method, str):
            found = [by_name[asked[0].name] for by_name in results]
        for row, one in zip(rows, found, strict=True):
            every[row] = one
    return every[0] if single else every


def _results(
    maker: Maker,
    aimed: Aimed,
    asked: Sequence[Request],
    *,
    batch_size: int,
    facts: Mapping[str, Any],
    tally: Tally,
) -> list[dict[str, Explanation]]:
    """Explain inputs that share a target, batch by batch; the results stand in their order."""
    items, sharing = aimed.items, maker.sharing
    policy = sharing.policy(items, batch_size, asks=not all(one.reads for one in asked))
    policy = sharing.small_enough(policy, items, asked)
    results: list[dict[str, Explanation]] = [{} for _ in items]
    for chosen in batches(items, policy):
        found = maker.explain(
            [items[i] for i in chosen],
            asked,
            spec=aimed.spec,
            policy=policy,
            facts=facts,
            tally=tally,
            before=aimed.forwards,
        )
        for i, by_name in zip(chosen, found, strict=True):
            results[i] = by_name
    return results


def explained_each(
    maker: Maker,
    given: Any,
    about: Asked,
    *,
    method: str | Sequence[str],
    params: Mapping[str, Any] | None,
    failed: Failed,
    batch_size: int,
) -> Iterator[tuple[int, dict[str, Explanation]]]:
    """Explain one thing of each input; see `Explainer.explain_each`."""
    maker.require_head()
    asked = requests(method, params, maker.loaded.fillers)
    inputs = inputs_of(given, maker.loaded, about.truncate, failed)
    if not inputs.items:
        return
    warn_of_unknown(inputs.items, maker.loaded)
    facts, sharing = maker.facts(), maker.sharing
    for numbers, aimed in aim_each(maker.loaded, inputs, about, failed):
        items = aimed.items
        policy = sharing.policy(items, batch_size, asks=not all(one.reads for one in asked))
        policy = sharing.small_enough(policy, items, asked)
        explain = partial(
            maker.explain,
            spec=aimed.spec,
            policy=policy,
            facts=facts,
            tally=Tally(None, items, asked),
            before=aimed.forwards,
            words=False,  # a run keeps the scores of tokens
        )
        for chosen in batches(items, policy):
            own, some = [numbers[i] for i in chosen], [items[i] for i in chosen]
            every = explained(explain, some, own, asked, failed)
            yield from ((number, found) for number, found in zip(own, every, strict=True) if found)


def predicted(maker: Maker, given: Any, about: Asked) -> Any:
    """Return what the model says about one input or several; see `Explainer.predict`."""
    maker.require_head()
    loaded = maker.loaded
    items, single = take(given, loaded, truncate=about.truncate, reads=about.reads)
    parts = by_target(about, len(items))
    if len(parts) > 1:  # answers of their own
        every: list[Any] = [None] * len(items)
        for rows, own in parts:
            said = _predicted(maker, aim(loaded, [items[row] for row in rows], own))
            for row, one in zip(rows, said, strict=True):
                every[row] = one
        return every
    aimed = aim(loaded, items, about)
    found = _predicted(maker, aimed)
    return found[0] if single and aimed.owners is None else found


def _predicted(maker: Maker, aimed: Aimed) -> list[Prediction | None]:
    loaded = maker.loaded
    found: list[Prediction | None] = [None] * len(aimed.items)
    policy = maker.sharing.policy(aimed.items)
    work = fitting_batches(loaded.model, "predictions", aimed.items, policy)
    for chosen in work:
        with work.trying(chosen):
            batch = maker.collate([aimed.items[i] for i in chosen])
            seen = trace(loaded.model, batch, (), aimed.spec, loaded.task)
            said = predictions(seen.logits, loaded.task, loaded.labels, batch.items)
            for i, one in zip(chosen, said, strict=True):
                found[i] = one
    return found
