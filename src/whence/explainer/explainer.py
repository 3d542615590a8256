"""The explainer: inputs to batches, one shared trace per batch, methods over it, results in order."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch

from whence.capture import Answers, TargetSpec, Trace, trace
from whence.capture.counted import counted
from whence.capture.target import predictions
from whence.core.errors import BadEncoding, EmptyText, NoHead
from whence.core.types import Of, Prediction
from whence.data import Batch, Encoded, Policy, batches, collate
from whence.data.removal import MANY, Removal, resolve
from whence.explainer.again import Remaker
from whence.explainer.examine import SHORT, examined
from whence.explainer.explanation import Explanation
from whence.explainer.inside import Inside, look
from whence.explainer.intake import take
from whence.explainer.request import DEFAULT, Request, requests
from whence.explainer.sharing import INPUTS, Sharing
from whence.explainer.testing import (
    Failed,
    Marks,
    Unit,
    backwards,
    explained,
    item_of,
    taken,
    tested,
    trial_of,
    ways_of,
)
from whence.explainer.work import Progress, Tally, explain_batch, origin
from whence.models import Loaded, with_infiller
from whence.models import load as load_model
from whence.trial import Trial
from whence.trust import Trust


def load(
    what: Any,
    *,
    tokenizer: Any = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    mlm: Any = None,
) -> "Explainer":
    """Make an explainer of a built-in model, a folder, a Hub id or a model object.

    `dtype` is a torch dtype or its name. None keeps the checkpoint's, except that half precision is
    computed in float32 on a CPU. `device` None takes the GPU if there is one. A model object stays where and
    as it is: another device or dtype means a copy.

    `mlm` is a masked language model with the same vocabulary: a built-in name ("reviews-base" for "reviews"), a
    folder, a Hub id or a model object. With it, tokens can be removed by drawing others instead: remove="draw".
    """
    loaded = load_model(what, tokenizer=tokenizer, device=device, dtype=dtype, revision=revision)
    return Explainer(loaded if mlm is None else with_infiller(loaded, mlm))


class Explainer:
    """A model that can be asked why."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._sharing = Sharing(loaded)

    @property
    def loaded(self) -> Loaded:
        """The model with what its configuration and tokenizer say about it."""
        return self._loaded

    @property
    def model(self) -> Any:
        """The transformers model."""
        return self._loaded.model

    @property
    def tokenizer(self) -> Any | None:
        """Its tokenizer, if it has one."""
        return self._loaded.tokenizer

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the outputs."""
        return self._loaded.labels

    @property
    def fillers(self) -> Mapping[str, int]:
        """The tokens that can stand in for a removed one: mask, pad, unk, as far as there are.

        With a language model also draw, the mask that it fills.
        """
        return self._loaded.fillers

    def __repr__(self) -> str:
        loaded = self._loaded
        return (
            f"<Explainer {loaded.name}: {type(loaded.model).__name__}, labels {list(loaded.labels)}, "
            f"{str(loaded.dtype).removeprefix('torch.')} on {loaded.device}>"
        )

    def explain(
        self,
        text: Any,
        *,
        method: str | Sequence[str] = DEFAULT,
        target: Any = None,
        params: Mapping[str, Any] | None = None,
        of: Of = "logit",
        truncate: bool = False,
        batch_size: int = INPUTS,
        progress: Progress | None = None,
    ) -> Any:
        """Explain a text, a pair (a, b), an encoded mapping, or a list of these.

        One input gives an `Explanation`, a list (or a mapping of several rows) a list. With a list of
        methods, each of them is a mapping from method name to `Explanation`; the methods share one forward
        and backward pass where they can.

        `target`: a label, an index, "predicted" (default), "runner-up", or a contrast ("positive", "negative").
        `of`: explain the "logit" (default) or the "probability".
        `truncate`: cut inputs that are too long instead of refusing them.
        `progress`: called with (units done, units in all).
        """
        asked = requests(method, params, self._loaded.fillers)
        self._require_head()
        spec = TargetSpec.parse(target, self.labels, of)
        items, single = take(text, self._loaded, truncate=truncate)
        tally = Tally(progress, items, asked)
        policy = self._sharing.policy(
            items, batch_size, asks=not all(request.reads for request in asked)
        )
        policy = self._sharing.small_enough(policy, items, asked)
        facts = self._facts()
        results: list[dict[str, Explanation]] = [{} for _ in items]
        for chosen in batches(items, policy):
            found = self._explain(
                [items[i] for i in chosen],
                asked,
                spec=spec,
                policy=policy,
                facts=facts,
                tally=tally,
            )
            for i, explanations in zip(chosen, found, strict=True):
                results[i] = explanations
        shaped: list[Any] = (
            [r[asked[0].name] for r in results] if isinstance(method, str) else [*results]
        )
        return shaped[0] if single else shaped

    def trials(
        self,
        texts: Any,
        *,
        method: str | Sequence[str],
        params: Mapping[str, Any] | None = None,
        target: Any = None,
        of: Of = "logit",
        truncate: bool = False,
        remove: Removal | None = None,
        unit: Unit = "token",
        marks: Marks | None = None,
        seed: int = 0,
        failed: Failed | None = None,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Trial, dict[str, Explanation]]]:
        """Explain a list of inputs and put each on trial: yield its number, the `Trial` and the explanations.

        What a method asks and what a metric asks is asked once. Inputs come in batches of like length, so not in
        the order given; a trial is to be used up before the next one is taken, for memory's sake. `marks` says which
        units a person called evidence, given an input's number, the input and its units. With `failed`, what
        cannot be explained is reported there, with the input's number and the method, and the rest goes on.
        """
        asked = requests(method, params, self._loaded.fillers)
        self._require_head()
        how = resolve(remove, self._loaded.fillers, MANY)
        spec = TargetSpec.parse(target, self.labels, of)
        numbers, items = taken(texts, self._loaded, truncate, failed)
        if not items:
            return
        tally = Tally(progress, items, asked)
        facts = self._facts()
        # Metrics ask about many variants of different lengths, whatever the methods do.
        policy = self._sharing.policy(items, tests=True)
        asking = self._sharing.variants(policy)
        policy = self._sharing.small_enough(policy, items, asked)
        for chosen in batches(items, policy):
            answers = self._answers(asking)
            some = [items[i] for i in chosen]
            explain = partial(
                self._explain, spec=spec, policy=policy, facts=facts, tally=tally, answers=answers
            )
            own = [numbers[i] for i in chosen]
            every = explained(explain, some, own, asked, failed)
            remaker = Remaker(self._loaded, policy)
            trials = [
                trial_of(
                    self._loaded,
                    item,
                    list(found.values()),
                    how=how,
                    unit=unit,
                    policy=asking,
                    remaker=remaker,
                    seed=seed,
                    answers=answers,
                    marks=marks and partial(marks, i),
                )
                for i, item, found in zip(own, some, every, strict=True)
                if found
            ]
            known = [(i, found) for i, found in zip(own, every, strict=True) if found]
            for trial, (i, found) in zip(trials, known, strict=True):
                yield i, trial, found

    def trust(
        self,
        what: Any,
        *,
        method: str | Sequence[str] = DEFAULT,
        params: Mapping[str, Any] | None = None,
        target: Any = None,
        of: Of = "logit",
        truncate: bool = False,
        remove: Removal | Literal["all"] | None = None,
        unit: Unit = "token",
        budget: int | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Trust:
        """Explain one input by one or several methods and test what they claim, on this very input.

        Instead of an input, `what` may be an `Explanation`: then that one is tested as it is.

        `remove`: how tokens are removed: "mask", "delete", "pad", "unk", "draw" (from a masked language model), or
        "all" of these that the model has. `unit`: remove each "token" alone or each "word" as a whole.
        `budget`: how often the tests may run the model forward, at most (default 2000, 1000 more for each further
        method, and as many for each further way of removal); what does not fit is not tested.
        """
        loaded, started = self._loaded, time.perf_counter()
        self._require_head()
        ways = ways_of(remove, loaded)
        asked: list[Request] = []
        if isinstance(what, Explanation):
            item = item_of(what, loaded)
        else:
            asked = requests(method, params, loaded.fillers)
            spec = TargetSpec.parse(target, self.labels, of)
            items, single = take(what, loaded, truncate=truncate)
            if not single:
                raise BadEncoding(
                    f"trust takes one input at a time. Got {len(items)}: call it for each, or whence.evaluate."
                )
            item = items[0]
        policy = self._sharing.policy([item], tests=True)
        answers = self._answers(self._sharing.variants(policy))
        with counted(loaded.model) as runs:
            if isinstance(what, Explanation):
                found = [what]
            else:
                (by_name,) = self._explain(
                    [item],
                    asked,
                    spec=spec,
                    policy=self._sharing.small_enough(policy, [item], asked),
                    facts=self._facts(),
                    tally=Tally(progress, [item], asked),
                    answers=answers,
                )
                found = list(by_name.values())
            return tested(
                loaded,
                item,
                found,
                ways=ways,
                unit=unit,
                policy=policy,
                answers=answers,
                runs=runs,
                backward=backwards(found) if asked else 0,
                started=started,
                budget=budget,
                seed=seed,
                progress=progress,
            )

    def predict(self, text: Any, *, truncate: bool = False) -> Any:
        """Return the `Prediction` for one input, or a list of them."""
        self._require_head()
        items, single = take(text, self._loaded, truncate=truncate)
        spec = TargetSpec.parse(None, self.labels)
        found: list[Prediction | None] = [None] * len(items)
        for chosen in batches(items, self._sharing.policy(items)):
            batch = self._collate([items[i] for i in chosen])
            seen = trace(self.model, batch, (), spec, self._loaded.task)
            for i, said in zip(
                chosen, predictions(seen.logits, self._loaded.task, self.labels), strict=True
            ):
                found[i] = said
        return found[0] if single else found

    def trace(
        self,
        text: Any,
        *,
        target: Any = None,
        of: Of = "logit",
        needs: Iterable[str] = ("attention", "attention_grad", "hidden_grad", "embedding_grad"),
        truncate: bool = False,
    ) -> Trace:
        """Return what readers read, for looking inside: `trace.layer(i).map()`, `.map_grad()`, `.cat()`.

        All inputs go into one batch.
        """
        self._require_head()
        spec = TargetSpec.parse(target, self.labels, of)
        items, _ = take(text, self._loaded, truncate=truncate)
        if not items:
            raise EmptyText(
                "There is nothing to trace: the list of inputs is empty. Give at least one."
            )
        policy = self._sharing.policy(items, len(items))
        if policy.size < len(items) or len({policy.kind(item) for item in items}) > 1:
            raise BadEncoding(
                f"{type(self.model).__name__} cannot take these {len(items)} inputs in one batch: padding or the "
                "batch itself would change the answer. Trace them one at a time."
            )
        return trace(self.model, self._collate(items), needs, spec, self._loaded.task)

    def inside(
        self, text: Any, *, target: Any = None, of: Of = "logit", truncate: bool = False
    ) -> Inside:
        """Look inside the model on one input: its attention, flows along it, its heads, and what cuts do.

        A model without a classification head can be looked into as well, as far as no decision is needed.
        """
        items, single = take(text, self._loaded, truncate=truncate)
        if not single:
            raise BadEncoding(
                f"inside takes one input at a time. Got {len(items)}: call it for each."
            )
        return look(self._loaded, self._sharing, items[0], target, of)

    def examine(self, text: Any = SHORT) -> dict[str, Any]:
        """Find out by trying what can be explained on this model, and why not."""
        return examined(self, text)

    def _require_head(self) -> None:
        if self._loaded.task == "none":
            raise NoHead(
                f"{self._loaded.name!r} is a {type(self.model).__name__}: it has no classification head, so there "
                "is no prediction to explain. Load a model ...ForSequenceClassification."
            )

    def _explain(
        self, items: Sequence[Encoded], asked: Sequence[Request], **how: Any
    ) -> list[dict[str, Explanation]]:
        return explain_batch(self._loaded, self._collate(items), asked, **how)

    def _answers(self, policy: Policy) -> Answers:
        loaded = self._loaded
        return Answers(
            loaded.model,
            pad_id=loaded.pad_id,
            device=loaded.device,
            policy=policy,
            infiller=loaded.infiller,
        )

    def _facts(self) -> dict[str, Any]:
        return {**origin(self._loaded), "explainer": self}

    def _collate(self, items: Sequence[Encoded]) -> Batch:
        return collate(items, pad_id=self._loaded.pad_id, device=self._loaded.device)
