"""The explainer: inputs to batches, one shared trace per batch, methods over it, results in order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from whence.capture import TargetSpec, Trace, trace
from whence.capture.probe import Capacity, capacity
from whence.capture.target import predictions
from whence.core.errors import BadEncoding, EmptyText, NoHead, WhenceError
from whence.core.types import Of, Prediction
from whence.data import Batch, Encoded, Policy, batches, collate
from whence.explainer.explanation import Explanation
from whence.explainer.intake import take
from whence.explainer.request import requests
from whence.explainer.work import Progress, Tally, explain_batch, origin
from whence.methods import method as registry
from whence.models import Loaded, fingerprint
from whence.models import load as load_model

# Cells (inputs x longest) of one batch. On a CPU larger batches fall out of its cache and are slower
# (bench/tiles.py); an accelerator wants more work at a time.
_CELLS = {"cpu": 1024}
_CELLS_ELSEWHERE = 8192
_INPUTS = 64
# What values that are split by token may take up; one input is taken whatever it takes.
_PARTS_BYTES = 1 << 32


def load(
    what: Any,
    *,
    tokenizer: Any = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
) -> "Explainer":
    """Make an explainer of a built-in model, a folder, a Hub id or a model object.

    `dtype` is a torch dtype or its name. None keeps the checkpoint's, except that half precision is
    computed in float32 on a CPU. `device` None takes the GPU if there is one. A model object stays where and
    as it is: another device or dtype means a copy.
    """
    return Explainer(
        load_model(what, tokenizer=tokenizer, device=device, dtype=dtype, revision=revision)
    )


class Explainer:
    """A model that can be asked why."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._capacity: Capacity | None = None

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
        """The tokens that can stand in for a removed one: mask, pad, unk, as far as there are."""
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
        method: str | Sequence[str] = "attcat",
        target: Any = None,
        params: Mapping[str, Any] | None = None,
        of: Of = "logit",
        truncate: bool = False,
        batch_size: int = _INPUTS,
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
        policy = self._policy(items, batch_size, asks=not all(request.reads for request in asked))
        if any("steps" in request.needs for request in asked):
            policy = replace(policy, cells=min(policy.cells, self._parts_at_a_time(items)))
        facts = origin(self._loaded)
        results: list[dict[str, Explanation]] = [{} for _ in items]
        for chosen in batches(items, policy):
            batch = self._collate([items[i] for i in chosen])
            found = explain_batch(self._loaded, batch, asked, spec, policy, facts, tally)
            for i, explanations in zip(chosen, found, strict=True):
                results[i] = explanations
        shaped: list[Any] = (
            [r[asked[0].name] for r in results] if isinstance(method, str) else [*results]
        )
        return shaped[0] if single else shaped

    def predict(self, text: Any, *, truncate: bool = False) -> Any:
        """Return the `Prediction` for one input, or a list of them."""
        self._require_head()
        items, single = take(text, self._loaded, truncate=truncate)
        spec = TargetSpec.parse(None, self.labels)
        found: list[Prediction | None] = [None] * len(items)
        for chosen in batches(items, self._policy(items, _INPUTS)):
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
        policy = self._policy(items, len(items))
        if policy.size < len(items) or len({policy.kind(item) for item in items}) > 1:
            raise BadEncoding(
                f"{type(self.model).__name__} cannot take these {len(items)} inputs in one batch: padding or the "
                "batch itself would change the answer. Trace them one at a time."
            )
        return trace(self.model, self._collate(items), needs, spec, self._loaded.task)

    def examine(self, text: Any = "whence tries every method on this short text") -> dict[str, Any]:
        """Find out by trying what can be explained on this model, and why not."""
        loaded = self._loaded
        if loaded.tokenizer is None:
            size = loaded.vocabulary or 8
            ids = [i % size for i in range(1, 6)]
            text = {"input_ids": [[*ids, *sorted(loaded.anchors)]]}
        tried = []
        for name in registry.names():
            try:
                self.explain(text, method=name)
                why_not = None
            except WhenceError as error:
                why_not = str(error)
            except Exception as error:  # a report of what fails must not fail itself
                why_not = f"{type(error).__name__}: {error}".splitlines()[0]
            tried.append({"method": name, "works": why_not is None, "why_not": why_not})
        return {"facts": _facts(loaded), "methods": tried}

    def _require_head(self) -> None:
        if self._loaded.task == "none":
            raise NoHead(
                f"{self._loaded.name!r} is a {type(self.model).__name__}: it has no classification head, so there "
                "is no prediction to explain. Load a model ...ForSequenceClassification."
            )

    def _policy(self, items: Sequence[Encoded], size: int, asks: bool = False) -> Policy:
        """Decide what may share a batch: by trying, once per explainer, when it first matters."""
        loaded = self._loaded
        cells = _CELLS.get(loaded.device.type, _CELLS_ELSEWHERE)
        several = len(items) > 1 or asks
        # Inputs of one length need no padding, and a model that knows a padding token takes many at once.
        sure = loaded.model.config.pad_token_id is not None and len({len(i) for i in items}) <= 1
        if sure or not several:
            return Policy(size, cells, False, loaded.anchors)
        if self._capacity is None:
            self._capacity = capacity(
                loaded.model,
                min(items, key=len),
                pad_id=loaded.pad_id,
                device=loaded.device,
                max_length=loaded.max_length,
            )
        size = 1 if self._capacity == "single" else size
        return Policy(size, cells, self._capacity == "mixed", loaded.anchors)

    def _parts_at_a_time(self, items: Sequence[Encoded]) -> int:
        """Return the cells of a batch whose values, split by token, still fit: tokens count once more there."""
        config, itemsize = self._loaded.model.config, self._loaded.dtype.itemsize
        # Feed-forward parts are about four times as wide as the rest, and about three values are held at once.
        width = 4 * getattr(config, "hidden_size", 768) * max(itemsize, 4) * 3
        return _PARTS_BYTES // (width * max((len(item) for item in items), default=1))

    def _collate(self, items: Sequence[Encoded]) -> Batch:
        return collate(items, pad_id=self._loaded.pad_id, device=self._loaded.device)


def _facts(loaded: Loaded) -> dict[str, Any]:
    tokenizer = "none" if loaded.tokenizer is None else type(loaded.tokenizer).__name__
    return {
        "name": loaded.name,
        "class": type(loaded.model).__name__,
        "labels": ", ".join(loaded.labels) or "none",
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "device": str(loaded.device),
        "longest input": loaded.max_length or "no bound",
        "tokenizer": tokenizer,
        "parameters": f"{sum(p.numel() for p in loaded.model.parameters()):,}",
        "fingerprint": fingerprint(loaded.model),
    }
