"""The explainer: inputs to batches, one shared trace per batch, methods over it, results in order."""

import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence._version import __version__
from whence.capture import Ask, TargetSpec, Trace, trace
from whence.capture.probe import Capacity, capacity
from whence.capture.target import predictions
from whence.core.errors import (
    BadEncoding,
    BadMethod,
    BadTokenizer,
    NoHead,
    NotFinite,
    WhenceError,
)
from whence.core.types import Of, Passes, Prediction
from whence.data import (
    Batch,
    Encoded,
    Given,
    Policy,
    batches,
    collate,
    encode,
    from_mapping,
    is_mapping,
)
from whence.explainer.explanation import Explanation
from whence.explainer.request import Request, requests
from whence.methods import method as registry
from whence.models import Loaded, fingerprint
from whence.models import load as load_model

# Cells (inputs x longest) of one batch. Beyond this a CPU gains nothing and memory grows.
_CELLS = 8192
_INPUTS = 64

Progress = Callable[[int, int], None]


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
        items, single = self._encoded(text, truncate)
        tally = _Tally(progress, items, asked)
        policy = self._policy(items, batch_size, asks=not all(request.reads for request in asked))
        results: list[dict[str, Explanation]] = [{} for _ in items]
        for chosen in batches(items, policy):
            batch = self._collate([items[i] for i in chosen])
            found = self._explain(batch, asked, spec, policy, tally)
            for i, explanations in zip(chosen, found, strict=True):
                results[i] = explanations
        shaped: list[Any] = (
            [r[asked[0].name] for r in results] if isinstance(method, str) else [*results]
        )
        return shaped[0] if single else shaped

    def predict(self, text: Any, *, truncate: bool = False) -> Any:
        """Return the `Prediction` for one input, or a list of them."""
        self._require_head()
        items, single = self._encoded(text, truncate)
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
        items, _ = self._encoded(text, truncate)
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
        facts: dict[str, Any] = {
            "name": loaded.name,
            "class": type(loaded.model).__name__,
            "labels": ", ".join(loaded.labels) or "none",
            "dtype": str(loaded.dtype).removeprefix("torch."),
            "device": str(loaded.device),
            "longest input": loaded.max_length or "no bound",
            "tokenizer": type(loaded.tokenizer).__name__
            if loaded.tokenizer is not None
            else "none",
            "parameters": f"{sum(p.numel() for p in loaded.model.parameters()):,}",
            "fingerprint": fingerprint(loaded.model),
        }
        if loaded.tokenizer is None:
            size = loaded.vocabulary or 8
            text = {"input_ids": [[i % size for i in range(1, 7)]]}
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
        return {"facts": facts, "methods": tried}

    def _require_head(self) -> None:
        if self._loaded.task == "none":
            raise NoHead(
                f"{self._loaded.name!r} is a {type(self.model).__name__}: it has no classification head, so there "
                "is no prediction to explain. Load a model ...ForSequenceClassification."
            )

    def _encoded(self, given: Any, truncate: bool) -> tuple[list[Encoded], bool]:
        """Encode whatever was given; say whether it was a single input."""
        if is_mapping(given):
            rows = self._encode(given, truncate)
            return rows, len(rows) == 1
        if isinstance(given, str) or _is_pair(given):
            return self._encode(given, truncate), True
        if isinstance(given, Iterable) and not isinstance(given, bytes | tuple):
            items: list[Encoded] = []
            for number, one in enumerate(given):
                one = tuple(one) if isinstance(one, list) and _is_pair(tuple(one)) else one
                rows = self._encode(one, truncate)
                if len(rows) != 1:
                    raise BadEncoding(
                        f"Input {number} of the list is an encoded mapping of {len(rows)} rows; give one row each."
                    )
                items += rows
            return items, False
        raise BadEncoding(
            f"Cannot explain {str(given)[:40]!r} ({type(given).__name__}): give a text, a pair (a, b) of texts, "
            "an encoded mapping, or a list of these."
        )

    def _encode(self, given: Given, truncate: bool) -> list[Encoded]:
        loaded = self._loaded
        if is_mapping(given):
            items = from_mapping(
                given,
                loaded.tokenizer,
                pad_ids=loaded.pad_ids,
                max_length=loaded.max_length,
                vocabulary=loaded.vocabulary,
            )
        else:
            item = encode(given, loaded.tokenizer, max_length=loaded.max_length, truncate=truncate)  # type: ignore[arg-type]
            size = loaded.vocabulary
            if size is not None and max(item.ids) >= size:
                raise BadTokenizer(
                    f"The tokenizer gives the id {max(item.ids)}, the model has {size} token embeddings. "
                    "Give the tokenizer that belongs to the model."
                )
            items = [item]
        return [self._accepted(item) for item in items]

    def _accepted(self, item: Encoded) -> Encoded:
        """Keep the features that the model's forward takes."""
        self._check_features(item)
        accepts = self._loaded.accepts
        unknown = [name for name in item.features if name not in accepts]
        if not unknown:
            return item
        if refused := [
            name for name in unknown if name not in {"token_type_ids", "attention_mask"}
        ]:
            raise BadEncoding(
                f"{type(self.model).__name__} does not take {refused[0]!r}. Leave it out of the mapping."
            )
        return replace(item, features={k: v for k, v in item.features.items() if k not in unknown})

    def _check_features(self, item: Encoded) -> None:
        """Refuse what would make the model's own code fail deep inside."""
        config, anchors = self.model.config, self._loaded.anchors
        bounds = {
            "token_type_ids": getattr(config, "type_vocab_size", None),
            "position_ids": getattr(config, "max_position_embeddings", None),
        }
        for name, bound in bounds.items():
            values = item.features.get(name, ())
            if (
                values
                and isinstance(bound, int)
                and bound
                and not 0 <= min(values) <= max(values) < bound
            ):
                raise BadEncoding(
                    f"{name!r} must lie from 0 to {bound - 1}. Got {min(values)} to {max(values)}."
                )
        if anchors and not anchors.intersection(item.ids):
            raise BadEncoding(
                f"{type(self.model).__name__} needs its end-of-sequence token {sorted(anchors)} in every input. "
                "Encode with the model's tokenizer."
            )

    def _policy(self, items: Sequence[Encoded], size: int, asks: bool = False) -> Policy:
        """Decide what may share a batch: by trying, once per explainer, when it first matters."""
        loaded = self._loaded
        several = len(items) > 1 or asks
        # Inputs of one length need no padding, and a model that knows a padding token takes many at once.
        sure = loaded.model.config.pad_token_id is not None and len({len(i) for i in items}) <= 1
        if sure or not several:
            return Policy(size, _CELLS, False, loaded.anchors)
        if self._capacity is None:
            self._capacity = capacity(
                loaded.model,
                min(items, key=len),
                pad_id=loaded.pad_id,
                device=loaded.device,
                max_length=loaded.max_length,
            )
        size = 1 if self._capacity == "single" else size
        return Policy(size, _CELLS, self._capacity == "mixed", loaded.anchors)

    def _collate(self, items: Sequence[Encoded]) -> Batch:
        return collate(items, pad_id=self._loaded.pad_id, device=self._loaded.device)

    def _explain(
        self,
        batch: Batch,
        asked: list[Request],
        spec: TargetSpec,
        policy: Policy,
        tally: "_Tally",
    ) -> list[dict[str, Explanation]]:
        """Run all methods over one batch."""
        loaded = self._loaded
        needs = frozenset[str]().union(*(request.needs for request in asked))
        started = time.perf_counter()
        seen = trace(loaded.model, batch, needs, spec, loaded.task)
        shared = time.perf_counter() - started
        tally.add(len(batch))
        said = predictions(seen.logits, loaded.task, self.labels)
        facts = self._facts()
        results: list[dict[str, Explanation]] = [{} for _ in batch.items]
        for request in asked:
            started = time.perf_counter()
            scores, axioms, forwards = self._scores(request, seen, policy, tally)
            seconds = (shared + time.perf_counter() - started) / len(batch)
            backward = int(
                bool(request.needs & {"attention_grad", "hidden_grad", "embedding_grad"})
            )
            for row, item in enumerate(batch.items):
                results[row][request.name] = Explanation(
                    scores=scores[row, : len(item)],
                    tokens=item.tokens,
                    spans=item.words,
                    source=item.source,
                    prediction=said[row],
                    target=seen.targets.describe(row, self.labels),
                    method=request.name,
                    params=request.params,
                    signed=bool(request.entry.facts["signed"]),
                    axioms={name: float(values[row]) for name, values in axioms.items()},
                    passes=Passes(1 + forwards[row], backward),
                    seconds=seconds,
                    **facts,
                )
        return results

    def _scores(
        self, request: Request, seen: Trace, policy: Policy, tally: "_Tally"
    ) -> tuple[np.ndarray[Any, Any], Mapping[str, Tensor], list[int]]:
        """Run one method; return its scores, its axioms' residuals and the extra forward passes."""
        loaded, batch = self._loaded, seen.batch
        forwards = [0] * len(batch)
        if request.reads:
            returned = request.entry.fn(seen, **request.params)
        else:
            ask = Ask(
                loaded.model,
                batch,
                seen.logits,
                seen.targets,
                fillers=loaded.fillers,
                anchors=loaded.anchors,
                pad_id=loaded.pad_id,
                policy=policy,
                progress=tally.add,
            )
            returned = request.entry.fn(ask, batch, **request.params)
            forwards = ask.forwards
        pair = returned if isinstance(returned, tuple) else (returned, {})
        if len(pair) != 2 or not isinstance(pair[1], Mapping):
            raise BadMethod(
                f"The method {request.name!r} must return scores, or scores and a mapping of axiom residuals."
            )
        scores, axioms = pair
        for axiom, residual in axioms.items():
            if not isinstance(residual, Tensor) or residual.shape != (len(batch),):
                raise BadMethod(
                    f"The axiom {axiom!r} of {request.name!r} must have one residual per input, ({len(batch)},)."
                )
        if not isinstance(scores, Tensor) or scores.shape != batch.real.shape:
            got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise BadMethod(
                f"The method {request.name!r} must return scores of {tuple(batch.real.shape)}; it gave {got}."
            )
        if not torch.isfinite(scores[batch.real]).all():
            raise NotFinite(
                f"The scores of {request.name!r} are not finite. Try another method, or dtype='float64'."
            )
        return _numpy(scores, loaded.dtype), axioms, forwards

    def _facts(self) -> dict[str, Any]:
        """Say which model this is and what computed it."""
        loaded = self._loaded
        return {
            "model": {
                "name": loaded.name,
                "revision": loaded.revision,
                "class": type(loaded.model).__name__,
                "fingerprint": fingerprint(loaded.model),
                "labels": list(loaded.labels),
            },
            "provenance": {
                **_software(),
                "device": str(loaded.device),
                "dtype": str(loaded.dtype).removeprefix("torch."),
            },
        }


class _Tally:
    """Counts work in forward passes: one per input, and what the askers will add."""

    def __init__(
        self, progress: Progress | None, items: Sequence[Encoded], asked: Sequence[Request]
    ) -> None:
        self._progress = progress
        self._done = 0
        self._total = sum(
            1 + sum(0 if r.reads else r.extra_forwards(len(item)) for r in asked) for item in items
        )

    def add(self, units: int) -> None:
        self._done += units
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


@cache
def _software() -> dict[str, str]:
    """Name the versions that compute; looked up once, because that takes as long as a small model."""
    return {
        "whence": __version__,
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(x, str) for x in given)


def _numpy(scores: Tensor, dtype: torch.dtype) -> np.ndarray[Any, Any]:
    """Bring scores to numpy in the dtype of the computation; bfloat16, which numpy lacks, becomes float32."""
    kept = torch.float32 if dtype == torch.bfloat16 else dtype
    return scores.detach().to(dtype=kept, device="cpu").numpy()
