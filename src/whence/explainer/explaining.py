"""Explaining inputs: taken in, aimed at, in batches, and returned in the shape in which they were asked for."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from whence.capture import trace
from whence.capture.memory.fitting import fitting_batches
from whence.capture.target import predictions
from whence.core.types import Prediction
from whence.data import batches
from whence.explainer.aims import Asked, aim, shaped
from whence.explainer.aims.each import Failed, aim_each
from whence.explainer.explanation import Explanation
from whence.explainer.intake import take, warn_of_unknown
from whence.explainer.maker import Maker
from whence.explainer.request import requests
from whence.explainer.verify.testing import explained, taken
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
    aimed = aim(maker.loaded, items, about)
    items = aimed.items
    tally = Tally(progress, items, asked)
    sharing = maker.sharing
    policy = sharing.policy(items, batch_size, asks=not all(one.reads for one in asked))
    policy = sharing.small_enough(policy, items, asked)
    facts = maker.facts()
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
    if aimed.owners is not None:
        return shaped(aimed, results, asked, method, single)
    every: list[Any] = [*results]
    if isinstance(method, str):
        every = [by_name[asked[0].name] for by_name in results]
    return every[0] if single else every


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
    numbers, items = taken(given, maker.loaded, about.truncate, failed)
    if not items:
        return
    warn_of_unknown(items, maker.loaded)
    numbers, aimed = aim_each(maker.loaded, items, numbers, about, failed)
    if aimed is None:
        return
    items = aimed.items
    sharing = maker.sharing
    policy = sharing.policy(items, batch_size, asks=not all(one.reads for one in asked))
    policy = sharing.small_enough(policy, items, asked)
    explain = partial(
        maker.explain,
        spec=aimed.spec,
        policy=policy,
        facts=maker.facts(),
        tally=Tally(None, items, asked),
        before=aimed.forwards,
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
    aimed = aim(loaded, items, about)
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
    return found[0] if single and aimed.owners is None else found
