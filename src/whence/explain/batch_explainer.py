"""The work on one batch: a trace that all readers share, a counted model for the askers, and the results."""

import platform
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence._version import __version__
from whence.capture import Answers, Ask, TargetSpec, Trace, trace
from whence.capture.found import turn
from whence.capture.target import is_value, predictions
from whence.core.errors import BadMethod, NoRule, NotCapturable, NotFinite, WhenceError
from whence.core.types import Passes
from whence.data import Batch, Encoded, Policy
from whence.explainer.explanation import Explanation
from whence.explainer.kept.shown import Shown
from whence.explainer.request import Request
from whence.models import Loaded, fingerprint
from whence.view.conserved import CODE, unconserved

Progress = Callable[[int, int], None]


class Tally:
    """Counts work in forward passes: one per input, and what the askers will add."""

    def __init__(
        self, progress: Progress | None, items: Sequence[Encoded], asked: Sequence[Request]
    ) -> None:
        self._progress = progress
        self._done = 0
        self._total = sum(
            1 + sum(0 if r.reads else _extra(r, item) for r in asked) for item in items
        )

    def add(self, units: int) -> None:
        """Count work that is done, and tell who wants to know."""
        self._done += units
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)

    def correct(self, expected: int, made: int) -> None:
        """Put what a method really did in the place of what it was thought to do: the end is then the end."""
        self._total += made - expected
        if made != expected:
            self.add(0)


def _extra(request: Request, item: Encoded) -> int:
    """Return how often a method will ask the model about an input, and about its words."""
    return request.extra_forwards(len(item), sum(len(word.tokens) > 1 for word in item.words))


def explain_batch(
    loaded: Loaded,
    batch: Batch,
    asked: Sequence[Request],
    *,
    spec: TargetSpec,
    policy: Policy,
    facts: Mapping[str, Any],
    tally: Tally,
    answers: Answers | None = None,
    before: int = 0,
    usual: str | None = None,
    words: bool = True,
) -> list[dict[str, Explanation]]:
    """Run all methods over one batch: one trace for those that read, and the model for those that ask.

    `before` counts the forwards that each input took already. `usual` is the default method, if it is known: what
    does not work is called by its name, and as the default. With `words`, methods that can be asked about whole words
    are.
    """
    # A trace may still have to run the model, or its backward pass, when it is read: nobody may change it before.
    with turn(loaded.model):
        started = time.perf_counter()
        seen = traced(loaded, batch, asked, spec)
        shared = time.perf_counter() - started
        tally.add(len(batch))
        read = {
            request.name: _timed(loaded, request, seen, policy, tally, usual=usual, words=words)
            for request in asked
            if request.reads
        }
    # Each question to a device waits for it: all that is said of single inputs is said of copies.
    said = predictions(seen.logits.cpu(), loaded.task, loaded.labels, batch.items)
    own, targets = batch.own.cpu().numpy(), seen.targets.cpu()
    logits = seen.logits.cpu()
    results: list[dict[str, Explanation]] = [{} for _ in batch.items]
    for request in asked:
        found = read.get(request.name) or _timed(
            loaded, request, seen, policy, tally, answers, words=words
        )
        (scores, axioms, extra, measured), seconds = found
        seconds = (shared + seconds) / len(batch)
        backward = request.backwards
        # A value has no probability: what measures one measures the value.
        of = None if is_value(seen.logits, loaded.task) else request.of
        finer = seen.fine.pop(request.name, None)
        fine = None if finer is None else _numpy(finer, loaded.dtype)
        outputs = targets.value(logits, of).tolist()
        for row, item in enumerate(batch.items):
            kept = scores[row, own[row]]
            missed = {name: float(values[row]) for name, values in axioms.items()}
            unkept = unconserved(request.name, kept.tolist(), missed, outputs[row], of or spec.of)
            results[row][request.name] = Explanation(
                scores=kept,
                tokens=item.tokens,
                spans=item.words,
                source=item.source,
                prediction=said[row],
                target=targets.describe(row, item.labels or loaded.labels, of),
                wanted=spec.of,
                method=request.name,
                params=request.params,
                signed=request.signed,
                words_by=request.words_by(measured=measured is not None),
                measured=None if measured is None else measured[row],
                axioms=missed,
                passes=Passes(1 + before + extra[row].forward, backward + extra[row].backward),
                seconds=seconds,
                shown=Shown.of(item, None if fine is None else fine[row]),
                read=item.read,
                reading=item.reading,
                columns=item.labels,
                warnings=(*item.warnings, *([] if unkept is None else [(CODE, unkept)])),
                item=item,
                **facts,
            )
    return results


def traced(loaded: Loaded, batch: Batch, asked: Sequence[Request], spec: TargetSpec) -> Trace:
    """Run the model once, and take what any of the methods will read; each of them reads it once."""
    needs = frozenset[str]().union(*(request.needs for request in asked))
    return trace(
        loaded.model,
        batch,
        needs,
        spec,
        loaded.task,
        readers=sum(request.reads for request in asked),
        checkpoint=loaded.checkpoint,
    )


Array = np.ndarray[Any, Any]
# Scores, the residuals of axioms, the extra passes of each input, and the scores of each input's words if measured.
Scored = tuple[Array, Mapping[str, Tensor], list[Passes], list[Array] | None]


def _timed(
    loaded: Loaded,
    request: Request,
    seen: Trace,
    policy: Policy,
    tally: Tally,
    answers: Answers | None = None,
    *,
    usual: str | None = None,
    words: bool,
) -> tuple[Scored, float]:
    started = time.perf_counter()
    found = scored(loaded, request, seen, policy, tally, answers, usual=usual, words=words)
    return found, time.perf_counter() - started


def scored(
    loaded: Loaded,
    request: Request,
    seen: Trace,
    policy: Policy,
    tally: Tally,
    answers: Answers | None = None,
    *,
    usual: str | None = None,
    words: bool = False,
) -> Scored:
    """Run one method; return its scores, its axioms' residuals and the extra passes of each input.

    With `words`, a method that can be asked about whole words is, and what it says is returned, too.
    """
    batch = seen.batch
    _warn_of_half(loaded, request)
    extra = [Passes(0, 0)] * len(batch)
    measured: list[Array] | None = None
    if request.reads:
        # The caller may sit in inference mode, and some readers differentiate.
        with torch.inference_mode(False), seen.reading():
            try:
                returned = request.entry.fn(seen, **request.params)
            except (NotCapturable, NoRule) as error:
                # Where several methods are asked for, or none was named, nobody knows which one this is about.
                which = f"{request.name}{', the default method,' * (request.name == usual)}"
                raise type(error)(f"{which} does not work on this model. {error}") from error
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
            answers=answers,
            infiller=loaded.infiller,
            checkpoint=loaded.checkpoint,
            progress=tally.add,
        )
        returned = request.entry.fn(ask, batch, **request.params)
        measure = request.entry.facts.get("measure_words") if words else None
        if measure is not None:
            scores, _ = _checked(request.name, returned, batch)
            falls = measure(ask, batch, scores, request.params)
            measured = [_numpy(one, loaded.dtype) for one in falls]
        extra = [Passes(*made) for made in zip(ask.forwards, ask.backwards, strict=True)]
        expected = sum(_extra(request, item) for item in batch.items)
        tally.correct(expected, sum(ask.forwards))
    scores, axioms = _checked(request.name, returned, batch)
    kept = _numpy(scores, loaded.dtype)
    if not np.isfinite(kept[batch.real.cpu().numpy()]).all():
        raise NotFinite(
            f"The scores of {request.name!r}, up to {float(scores.abs().max()):.1e}, are too large for {kept.dtype}, "
            "in which they are kept. Load the model with dtype='float64'."
        )
    return kept, axioms, extra, measured


def unnamed(error: WhenceError) -> WhenceError:
    """Return what was wrong with a method without its name, for where that stands beside it."""
    cause = error.__cause__
    return cause if isinstance(cause, WhenceError) else error


def _warn_of_half(loaded: Loaded, request: Request) -> None:
    """Say so where half precision leaves nothing of what a method computes."""
    if loaded.dtype.itemsize < 4 and request.entry.facts.get("unsure_in_half"):
        warnings.warn(
            f"{request.name} in {str(loaded.dtype).removeprefix('torch.')} is mostly rounding: it divides by sums "
            "that nearly cancel. Load the model with dtype='float32' or, better, 'float64'.",
            RuntimeWarning,
            stacklevel=2,
        )


def _checked(name: str, returned: Any, batch: Batch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Hold a method to its word: one finite score per token, one residual per input."""
    pair = returned if isinstance(returned, tuple) else (returned, {})
    if len(pair) != 2 or not isinstance(pair[1], Mapping):
        raise BadMethod(
            f"The method {name!r} must return scores, or scores and a mapping of axiom residuals."
        )
    scores = pair[0].detach().cpu() if isinstance(pair[0], Tensor) else pair[0]
    axioms = {n: one.cpu() if isinstance(one, Tensor) else one for n, one in pair[1].items()}
    real = batch.real.cpu()
    for axiom, residual in axioms.items():
        if isinstance(residual, Tensor) and not residual.isfinite().all():
            raise NotFinite(
                f"The axiom {axiom!r} of {name!r} is not finite. Try another method, or dtype='float64'."
            )
        if not isinstance(residual, Tensor) or residual.shape != (len(batch),):
            raise BadMethod(
                f"The axiom {axiom!r} of {name!r} must have one residual per input, ({len(batch)},)."
            )
    if not isinstance(scores, Tensor) or scores.shape != batch.real.shape:
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise BadMethod(
            f"The method {name!r} must return scores of {tuple(batch.real.shape)}; it gave {got}."
        )
    if not torch.isfinite(scores[real]).all():
        raise NotFinite(
            f"The scores of {name!r} are not finite. Try another method, or dtype='float64'."
        )
    return scores, axioms


def origin(loaded: Loaded) -> dict[str, Any]:
    """Say which model this is and what computed it."""
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
            **_infilling(loaded),
        },
    }


def _infilling(loaded: Loaded) -> dict[str, str]:
    """Say which language model stands by to fill holes."""
    if loaded.infiller is None:
        return {}
    own = loaded.infiller.loaded
    return {"mlm": own.name, "mlm_fingerprint": fingerprint(own.model)}


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


def _numpy(scores: Tensor, dtype: torch.dtype) -> np.ndarray[Any, Any]:
    """Bring scores to numpy in the dtype of the computation, or in float32, in which half precision is summed up."""
    kept = torch.promote_types(dtype, torch.float32)
    return scores.detach().to(dtype=kept, device="cpu").numpy()


"""Who makes explanations: a model, what may share a batch on it, and what every explanation says of its origin."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whence.capture import Answers, TargetSpec
from whence.capture.memory.fitting import Fitting
from whence.core.errors import NoHead, NoRule, NotCapturable
from whence.data import Batch, Encoded, Policy, collate
from whence.data.removal import suited
from whence.explainer.examine import sample
from whence.explainer.explanation import Explanation
from whence.explainer.request import Request, default
from whence.explainer.sharing import Sharing
from whence.explainer.work import Tally, explain_batch, origin, unnamed
from whence.methods import is_reader
from whence.methods import method as registry
from whence.models import Loaded

if TYPE_CHECKING:
    from whence.explainer.explainer import Explainer


# What they need, nearly every model has: gradients of its embeddings; being run.
_UNDEMANDING = ("grad_x_input", "leave_one_out")


class FallbackWarning(UserWarning):
    """The default method does not work on a model, and another one explains."""


class Maker:
    """Explains batches on one model, for the explainer whose model it is."""

    def __init__(self, loaded: Loaded, owner: "Explainer") -> None:
        self.loaded = loaded
        self.sharing = Sharing(loaded)
        self._owner = owner
        self._usual: dict[
            bool, str
        ] = {}  # the method where none is named: for a text, for a picture
        self._wished: dict[bool, str] = {}  # the default of such a model, whether it works or not
        self._instead: dict[str, str] = {}  # of a method that stands in for the default: why

    def explain(
        self,
        items: Sequence[Encoded],
        asked: Sequence[Request],
        *,
        spec: TargetSpec,
        policy: Policy,
        facts: Mapping[str, Any],
        tally: Tally,
        answers: Answers | None = None,
        before: int = 0,
        words: bool = True,
    ) -> list[dict[str, Explanation]]:
        """Explain one batch by all methods; `before` counts the forwards that each input took already.

        Without `words`, methods that can be asked about whole words are not: it saves calls where nobody looks.
        `facts` are those of `facts()`, which takes a while on a large model: once is enough for all batches.
        """
        found: list[dict[str, Explanation]] = []
        work = Fitting(
            self.loaded.model,
            ", ".join(sorted(request.name for request in asked)),
            [items],
            lambda part: len(part) * max(len(item) for item in part),
            lambda item: self.sharing.told(item, asked),
        )
        for part in work:
            with work.trying(part):
                found += explain_batch(
                    self.loaded,
                    self.collate(part),
                    asked,
                    spec=spec,
                    policy=policy,
                    facts=facts,
                    tally=tally,
                    answers=answers,
                    before=before,
                    words=words,
                    usual=self._wished.get(part[0].picture is not None),
                )
        return [{name: self._noted(one) for name, one in by_name.items()} for by_name in found]

    def facts(self) -> dict[str, Any]:
        """Return what every explanation says of its origin; not kept, as the model may be trained on in between."""
        return {**origin(self.loaded), "explainer": self._owner}

    def collate(self, items: Sequence[Encoded]) -> Batch:
        """Return the inputs as a batch on the model's device."""
        return collate(items, pad_id=self.loaded.pad_id, device=self.loaded.device)

    def answers(self, policy: Policy) -> Answers:
        """Return what remembers the model's answers."""
        loaded = self.loaded
        return Answers(
            loaded.model,
            pad_id=loaded.pad_id,
            device=loaded.device,
            policy=policy,
            infiller=loaded.infiller,
        )

    def suited(self, reads: bool) -> Loaded:
        """Return the model with what can be done to its input: where it takes both, to a text or to a picture."""
        if self.loaded.modality != "both":
            return self.loaded
        return replace(self.loaded, fillers=suited(self.loaded.fillers, not reads))

    def method(self, reads: bool) -> str:
        """Name the method that explains where none is asked for: the default, or the first that works after it.

        What a model lacks shows when it is run: the default is tried once, on something short.
        """
        picture = self.loaded.sees and not reads
        if picture not in self._usual:
            self._wished[picture] = default(
                self.loaded, picture, not picture and self._is_causal(reads)
            )
            self._usual[picture] = self._working(self._wished[picture], reads)
        return self._usual[picture]

    def _is_causal(self, reads: bool) -> bool:
        """Say whether the tokens of a text see only what stands before them; what generates counts as such a model.

        Configurations do not say it of classifiers. Their attention does, on something short.
        """
        if self.loaded.task in ("next", "sequence"):
            return True
        given, more = sample(self.loaded, held=reads and self.loaded.sees)
        try:
            seen = self._owner.trace(given, needs=("attention",), **{**more, "truncate": True})
            return seen.is_causal()
        except Exception:  # what is wrong with a model is said when it is asked something
            return False

    def _working(self, usual: str, reads: bool) -> str:
        """Return the default method, or another where the model lacks what it needs; that is said."""
        if reads and self.loaded.sees:  # what a text is held against is not known here
            return usual
        given, more = sample(self.loaded)
        why = ""
        for name in (usual, *(one for one in _UNDEMANDING if one != usual)):
            try:
                if is_reader(registry.get(name)):  # what only asks the model works wherever it runs
                    with warnings.catch_warnings():
                        # Whether a model knows the words of an example is nothing against the model.
                        warnings.filterwarnings(
                            "ignore", "The tokenizer does not know", UserWarning
                        )
                        self._owner.explain(given, method=name, **more)
            except (NotCapturable, NoRule) as error:
                why = why or str(unnamed(error)).partition(" Use ")[0]
                continue
            except Exception:  # what else is wrong with a model is said when it is asked something
                return usual
            if name != usual:
                self._instead[name] = (
                    f"{usual}, the default method, does not work on this model, and {name} explains in its place. "
                    f"{why}"
                )
                warnings.warn(self._instead[name], FallbackWarning, stacklevel=2)
            return name
        return usual

    def _noted(self, explanation: Explanation) -> Explanation:
        """Return an explanation that says that its method stands in for another, where it does."""
        why = self._instead.get(explanation.method)
        if why is None:
            return explanation
        return replace(explanation, warnings=(*explanation.warnings, ("other-method", why)))

    def require_head(self) -> None:
        """Refuse a model that predicts nothing, or nothing from texts or pictures."""
        self.loaded.require_input()
        if self.loaded.task == "none":
            raise NoHead(
                f"{self.loaded.name!r} is a {type(self.loaded.model).__name__}: it has no head that whence knows, so "
                "there is no prediction to explain. Load a model for a task: ...ForSequenceClassification, "
                "...ForQuestionAnswering, ...ForTokenClassification, ...ForMaskedLM, ...ForCausalLM, "
                "...ForConditionalGeneration, ...ForImageClassification, or CLIPModel."
            )
