"""Checks of one transformers class for the sweep: logits, gradients, removal and batches against plain PyTorch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor

import whence
from tests import text_model_classes
from whence.core.errors import WhenceError
from whence.data.batches import Batch
from whence.data.removal import list_removable_tokens, remove_sets, resolve_removal
from whence.tracing.forward import select_output_tensors
from whence.tracing.target import read_logits

# Of the largest score or logit. Many compute norms, softmaxes or positions in float32 whatever their dtype, and what
# runs in float32 alone is off by its rounding, in gradients through a few layers of random weights.
CLOSE = {torch.float64: 1e-4, torch.float32: 5e-3}
CHECKS = ("logits", "gradient", "leave_one_out", "batch", "attention")
OK, WRONG, BARE = "ok", "wrong", "bare exception"

Score = np.ndarray[Any, Any]


@dataclass
class Outcome:
    """What came of one class: each check is "ok", a refusal of whence's own, or a fault."""

    kind: str
    head: str
    name: str
    unbuilt: str = ""  # why there is no such model to try
    dtype: str = ""
    found: dict[str, str] = field(default_factory=dict)


def faults_in(found: Mapping[str, str]) -> list[str]:
    """Return what should not be: numbers that differ, and exceptions that are not whence's."""
    return [f"{check}: {one}" for check, one in found.items() if one.startswith((WRONG, BARE))]


def sweep(kind: str, head: str, name: str) -> Outcome:
    """Try one class of a model type."""
    outcome = Outcome(kind, head, name)
    model = None
    for dtype in CLOSE:
        try:
            model = text_model_classes.make(kind, name, dtype)
        except Exception as error:  # transformers may refuse a configuration in any way
            outcome.unbuilt = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
            return outcome
        outcome.dtype = str(dtype).removeprefix("torch.")
        if _runs(model, head) or dtype is torch.float32:
            _Trial(model, head, outcome).run()
            if not all(_FLOAT32 in one for one in outcome.found.values()):
                break
    return outcome


# The advice of a refusal where a model runs in float32 alone: it is taken.
_FLOAT32 = "load it with dtype='float32'"


def _given(head: str) -> list[Any]:
    if head == "MaskedLM":
        return [
            "the film was <mask> good",
            "it was not <mask> and not slow",
            "we saw a <mask> plot",
        ]
    return [
        ("what was good", text) if head == "QuestionAnswering" else text
        for text in text_model_classes.TEXTS
    ]


def _about(head: str) -> dict[str, Any]:
    """Return what is asked beside: of a tagger, the tag of one token."""
    return {"at": 2} if head == "TokenClassification" else {}


def _runs(model: Any, head: str) -> bool:
    """Say whether a model runs in this dtype by itself."""
    given = _given(head)[0]
    encoded = text_model_classes.tokenizer()(
        *([given] if isinstance(given, str) else given), return_tensors="pt"
    )
    more = {"decoder_input_ids": torch.tensor([[2, 5]])} if head == "Seq2SeqLM" else {}
    try:
        with torch.no_grad():
            masks = {"attention_mask"} & set(signature(model.forward).parameters)
            output = model(input_ids=encoded["input_ids"], **{n: encoded[n] for n in masks}, **more)
    except Exception:  # a model may raise anything
        return False
    return all(bool(one.isfinite().all()) for one in select_output_tensors(output).values())


class _Trial:
    """The checks of one model."""

    def __init__(self, model: Any, head: str, outcome: Outcome) -> None:
        self.model, self.given, self.outcome = model, _given(head), outcome
        self.about = _about(head)
        self.close = CLOSE[getattr(torch, outcome.dtype)]

    def run(self) -> None:
        """Make every check that can be made."""
        for check in CHECKS:
            self.outcome.found[check] = self._said(getattr(self, f"_{check}"))

    def _said(self, check: Callable[[], float]) -> str:
        try:
            # Reformer draws its hashes; each pass is to draw the same.
            torch.manual_seed(0)
            off = check()
        except WhenceError as error:
            return f"{type(error).__name__}: {error}"
        except Exception as error:  # what the sweep is for
            return f"{BARE} {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return OK if off <= self.close else f"{WRONG} by {off:.2g}"

    @property
    def explainer(self) -> whence.Explainer:
        """The model with the tokenizer of all of them."""
        return whence.load(self.model, tokenizer=text_model_classes.tokenizer())

    def _run(self, batch: Batch) -> Any:
        # RWKV and xLSTM write into what they keep for the next token.
        keeps = "use_cache" in signature(self.model.forward).parameters
        return self.model(**batch.inputs, **({"use_cache": False} if keeps else {}))

    def _plain(self, batch: Batch) -> Tensor:
        torch.manual_seed(0)
        with torch.no_grad():
            return read_logits(self._run(batch), batch, self.outcome.name)

    def _logits(self) -> float:
        """Compare logits of a trace, by attention or else by gradients alone."""
        try:
            trace = self.explainer.trace(self.given[0], **self.about)
        except WhenceError:
            torch.manual_seed(0)
            trace = self.explainer.trace(self.given[0], **self.about, needs=("attention",))
        return _off(trace.logits, self._plain(trace.batch))

    def _gradient(self) -> float:
        trace = self.explainer.trace(self.given[0], **self.about, needs=("embedding_grad",))
        found = self.explainer.explain(self.given[0], method="grad_x_input", **self.about).scores
        looked: list[tuple[Tensor, Tensor]] = []

        def look(_: Any, args: Any, output: Tensor) -> Tensor:
            leaf = output.detach().requires_grad_()
            looked.append((args[0], leaf))
            return leaf.clone()

        handles = [table.register_forward_hook(look) for table in _tables(self.model)]
        torch.manual_seed(0)
        logits = read_logits(self._run(trace.batch), trace.batch, self.outcome.name)
        for handle in handles:
            handle.remove()
        value = trace.targets.value(logits).sum()
        grads = torch.autograd.grad(value, [leaf for _, leaf in looked])
        wanted = torch.zeros(len(found), dtype=torch.float64)
        for (ids, leaf), grad in zip(looked, grads, strict=True):
            _put(wanted, ids, (leaf * grad).sum(-1).double().detach(), trace.batch.items[0])
        return _off(torch.as_tensor(found, dtype=torch.float64), wanted)

    def _leave_one_out(self) -> float:
        explainer = self.explainer
        found = explainer.explain(self.given[0], method="leave_one_out", **self.about).scores
        trace = explainer.trace(self.given[0], needs=("attention",), **self.about)
        item, loaded = trace.batch.items[0], explainer.loaded
        how = resolve_removal(None, loaded.fillers)
        wanted = torch.zeros(len(found), dtype=torch.float64)

        def probability(gone: tuple[int, ...]) -> Tensor:
            variant = remove_sets([item], [0], [gone], how, loaded.fillers)
            batch = variant.collate([0], pad_id=loaded.pad_id, device=torch.device("cpu"))
            return trace.targets.value(self._plain(batch), "probability")[0].double()

        for place in list_removable_tokens(item, loaded.anchors):
            wanted[place] = probability(()) - probability((place,))
        return _off(torch.as_tensor(found, dtype=torch.float64), wanted)

    def _batch(self) -> float:
        """Compare several inputs at once with each alone; gradients where there are any."""
        explainer, worst, refused = self.explainer, 0.0, None
        for method in ("grad_x_input", "leave_one_out"):
            try:
                many = explainer.explain(self.given, method=method, **self.about)
                alone = [explainer.explain(one, method=method, **self.about) for one in self.given]
            except WhenceError as error:
                refused = error
                continue
            pairs = zip(many, alone, strict=True)
            worst = max(worst, *(_off(_scores(one), _scores(other)) for one, other in pairs))
        if refused is not None and method == "leave_one_out" and "alone" not in locals():
            raise refused
        return worst

    def _attention(self) -> float:
        found = self.explainer.explain(self.given[0], method="raw_attention", **self.about)
        return 0.0 if np.isfinite(found.scores).all() else float("inf")


def _scores(found: whence.Explanation) -> Tensor:
    return torch.as_tensor(found.scores, dtype=torch.float64)


def _off(one: Tensor, other: Tensor) -> float:
    """Return the largest difference as a part of the largest number; what is next to nothing is nothing."""
    one, other = one.double(), other.double()
    fine = other.isfinite() & one.isfinite()
    if not bool(fine.all()) and not bool((other.isfinite() == one.isfinite()).all()):
        return float("inf")
    if not bool(fine.any()):
        return 0.0
    return float((one - other)[fine].abs().max() / (other[fine].abs().max() + 1e-6))


def _tables(model: Any) -> list[Any]:
    """Return the modules that look tokens up: the model's own, and those of an encoder and a decoder."""
    found = [model.get_input_embeddings()]
    if getattr(model.config, "is_encoder_decoder", False):
        found += [
            getattr(model, f"get_{side}")().get_input_embeddings()
            for side in ("encoder", "decoder")
        ]
    weights = [id(one.weight) for one in found if hasattr(one, "weight")]
    same = [
        part
        for part in model.modules()
        if isinstance(part, torch.nn.Embedding) and id(part.weight) in weights
    ]
    return list({id(one): one for one in (*same, *found)}.values())


def _put(wanted: Tensor, ids: Tensor, scores: Tensor, item: Any) -> None:
    """Add scores of what was looked up to the tokens of an input: its own, its answer's, or the same one later on."""
    if ids.shape[0] != 1 and ids.shape[-1] == 1:
        ids, scores = ids.T, scores.T
    looked, own = ids[0].tolist(), list(item.features["input_ids"])
    answer: Sequence[int] = item.answer
    if looked == own:
        wanted[: len(own)] += scores[0]
    elif answer and looked == list(answer):
        wanted[len(own) :] += scores[0]
    elif looked[1:] == own[:-1]:
        wanted[: len(own) - 1] += scores[0, 1:]
    else:
        raise ValueError(f"{looked} were looked up for {own}")
