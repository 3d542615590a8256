"""BatchExplainer: all methods on one batch with one trace, score checks, default method, trial of every method.

Query methods call the model again through a counted `ModelQuery`. Also the default method of a model, and a
trial of every method on a short sample (`whence doctor`).
"""

import platform
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from whence._version import __version__
from whence.core.errors import (
    BadMethod,
    NoHead,
    NoRule,
    NotCapturable,
    NotFinite,
    WhenceError,
    is_failure,
)
from whence.core.progress import Progress as Progress
from whence.core.types import PassCount
from whence.data.batches import Batch, BatchRules, collate
from whence.data.removal import select_replacements
from whence.data.tokens import EncodedInput
from whence.explain.batch_policy import BatchPlanner
from whence.explain.explanation import ExplainedImage, Explanation
from whence.explain.request import MethodRequest, choose_default_method
from whence.explain.tasks import find_pair_evidence
from whence.methods import is_trace_method
from whence.methods import method as registry
from whence.models.fingerprint import compute_fingerprint
from whence.models.model import LoadedModel
from whence.render.colour import NOT_CONSERVED_CODE, describe_conservation_failure
from whence.tracing.ask import ModelQuery, PredictionCache
from whence.tracing.out_of_memory import RetryHalved
from whence.tracing.restore import get_model_lock
from whence.tracing.target import TargetSpec, build_predictions, is_value_output
from whence.tracing.trace import Trace, run_traced

if TYPE_CHECKING:
    from whence.explain.explainer import Explainer


class ProgressCounter:
    """Counts work in forward passes: one per input, and the extra passes of query methods."""

    def __init__(
        self,
        progress: Progress | None,
        items: Sequence[EncodedInput],
        requests: Sequence[MethodRequest],
    ) -> None:
        self._progress = progress
        self._done = 0
        self._total = sum(
            1 + sum(0 if r.reads else _count_extra_forwards(r, item) for r in requests)
            for item in items
        )

    def add(self, units: int) -> None:
        """Count finished forward passes and call the progress callback."""
        self._done += units
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)

    def correct(self, expected: int, actual: int) -> None:
        """Replace a method's expected number of passes by the actual one, so that progress ends at 100 %."""
        self._total += actual - expected
        if actual != expected:
            self.add(0)


def _count_extra_forwards(request: MethodRequest, item: EncodedInput) -> int:
    """Return the expected number of model queries of a method for one input and its words."""
    return request.extra_forwards(len(item), sum(len(word.tokens) > 1 for word in item.words))


def explain_batch(
    loaded: LoadedModel,
    batch: Batch,
    requests: Sequence[MethodRequest],
    *,
    spec: TargetSpec,
    policy: BatchRules,
    facts: Mapping[str, Any],
    tally: ProgressCounter,
    answers: PredictionCache | None = None,
    before: int = 0,
    usual: str | None = None,
    words: bool = True,
) -> list[dict[str, Explanation]]:
    """Run all methods on one batch: one trace for trace methods, model queries for query methods.

    `before` counts the forwards that each input took already. `usual` is the default method, if it is known:
    errors name a method that does not work, and call it the default. With `words`, query methods that can
    measure whole words do.
    """
    # Reading a trace may still run the model or its backward pass: the lock keeps others from changing the model.
    with get_model_lock(loaded.model):
        started = time.perf_counter()
        trace = trace_batch(loaded, batch, requests, spec)
        shared = time.perf_counter() - started
        tally.add(len(batch))
        trace_results = {
            request.name: _time_method(
                loaded, request, trace, policy, tally, usual=usual, words=words
            )
            for request in requests
            if request.reads
        }
    # Copy to the CPU once; each .item() would synchronise the GPU.
    predictions = build_predictions(trace.logits.cpu(), loaded.task, loaded.labels, batch.items)
    own, targets = batch.own.cpu().numpy(), trace.targets.cpu()
    logits = trace.logits.cpu()
    results: list[dict[str, Explanation]] = [{} for _ in batch.items]
    for request in requests:
        result = trace_results.get(request.name) or _time_method(
            loaded, request, trace, policy, tally, answers, words=words
        )
        (scores, axioms, extra, measured), seconds = result
        seconds = (shared + seconds) / len(batch)
        backward = request.backwards
        # A regression has no probability: methods that measure one measure its value.
        of = None if is_value_output(trace.logits, loaded.task) else request.of
        finer = trace.fine.pop(request.name, None)
        fine = None if finer is None else _to_numpy(finer, loaded.dtype)
        outputs = targets.value(logits, of).tolist()
        for row, item in enumerate(batch.items):
            token_scores = scores[row, own[row]]
            residuals = {name: float(values[row]) for name, values in axioms.items()}
            failure = describe_conservation_failure(
                request.name, token_scores.tolist(), residuals, outputs[row], of or spec.of
            )
            results[row][request.name] = Explanation(
                scores=token_scores,
                tokens=item.tokens,
                spans=item.words,
                source=item.source,
                prediction=predictions[row],
                target=targets.describe(row, item.labels or loaded.labels, of),
                wanted=spec.of,
                method=request.name,
                params=request.params,
                signed=request.is_signed,
                words_by=request.words_by(measured=measured is not None),
                measured=None if measured is None else measured[row],
                axioms=residuals,
                passes=PassCount(1 + before + extra[row].forward, backward + extra[row].backward),
                seconds=seconds,
                shown=ExplainedImage.from_input(item, None if fine is None else fine[row]),
                read=item.readout_positions,
                reading=item.reading,
                columns=item.labels,
                warnings=(
                    *item.warnings,
                    *([] if failure is None else [(NOT_CONSERVED_CODE, failure)]),
                ),
                item=item,
                **facts,
            )
    return results


def trace_batch(
    loaded: LoadedModel, batch: Batch, requests: Sequence[MethodRequest], spec: TargetSpec
) -> Trace:
    """Trace the model once, with everything that any of the methods needs."""
    needs = frozenset[str]().union(*(request.needs for request in requests))
    return run_traced(
        loaded.model,
        batch,
        needs,
        spec,
        loaded.task,
        readers=sum(request.reads for request in requests),
        checkpoint=loaded.checkpoint,
    )


Array = np.ndarray[Any, Any]
# Scores, axiom residuals, the extra passes of each input, and the measured word scores of each input, if any.
MethodScores = tuple[Array, Mapping[str, Tensor], list[PassCount], list[Array] | None]


def _time_method(
    loaded: LoadedModel,
    request: MethodRequest,
    trace: Trace,
    policy: BatchRules,
    tally: ProgressCounter,
    answers: PredictionCache | None = None,
    *,
    usual: str | None = None,
    words: bool,
) -> tuple[MethodScores, float]:
    started = time.perf_counter()
    scores = run_method(loaded, request, trace, policy, tally, answers, usual=usual, words=words)
    return scores, time.perf_counter() - started


def run_method(
    loaded: LoadedModel,
    request: MethodRequest,
    trace: Trace,
    policy: BatchRules,
    tally: ProgressCounter,
    answers: PredictionCache | None = None,
    *,
    usual: str | None = None,
    words: bool = False,
) -> MethodScores:
    """Run one method; return its scores, axiom residuals, extra passes and measured word scores.

    With `words`, a query method that can measure whole words does, and these scores are returned, too.
    """
    batch = trace.batch
    _warn_about_half_precision(loaded, request)
    extra = [PassCount(0, 0)] * len(batch)
    measured: list[Array] | None = None
    if request.reads:
        # The caller may be in inference mode, and some trace methods differentiate.
        with torch.inference_mode(False), trace.reading():
            try:
                returned = request.entry.fn(trace, **request.params)
            except (NotCapturable, NoRule) as error:
                # With several methods, or the default, the user must be told which method failed.
                which = f"{request.name}{', the default method,' * (request.name == usual)}"
                raise type(error)(f"{which} does not work on this model. {error}") from error
    else:
        ask = ModelQuery(
            loaded.model,
            batch,
            trace.logits,
            trace.targets,
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
            scores, _ = _check_scores(request.name, returned, batch)
            falls = measure(ask, batch, scores, request.params)
            measured = [_to_numpy(fall, loaded.dtype) for fall in falls]
        extra = [PassCount(*counts) for counts in zip(ask.forwards, ask.backwards, strict=True)]
        expected = sum(_count_extra_forwards(request, item) for item in batch.items)
        tally.correct(expected, sum(ask.forwards))
    scores, axioms = _check_scores(request.name, returned, batch)
    array = _to_numpy(scores, loaded.dtype)
    if not np.isfinite(array[batch.real.cpu().numpy()]).all():
        raise NotFinite(
            f"The scores of {request.name!r}, up to {float(scores.abs().max()):.1e}, are too large for {array.dtype}, "
            "in which they are kept. Load the model with dtype='float64'."
        )
    return array, axioms, extra, measured


def strip_method_name(error: WhenceError) -> WhenceError:
    """Return an error without the method name, for messages that already show the name."""
    cause = error.__cause__
    return cause if isinstance(cause, WhenceError) else error


def _warn_about_half_precision(loaded: LoadedModel, request: MethodRequest) -> None:
    """Warn where a method's scores in half precision are mostly rounding."""
    if loaded.dtype.itemsize < 4 and request.entry.facts.get("unsure_in_half"):
        warnings.warn(
            f"{request.name} in {str(loaded.dtype).removeprefix('torch.')} is mostly rounding: it divides by sums "
            "that nearly cancel. Load the model with dtype='float32' or, better, 'float64'.",
            RuntimeWarning,
            stacklevel=2,
        )


def _check_scores(name: str, returned: Any, batch: Batch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Check a method's result: one finite score per token, one finite residual per input."""
    pair = returned if isinstance(returned, tuple) else (returned, {})
    if len(pair) != 2 or not isinstance(pair[1], Mapping):
        raise BadMethod(
            f"The method {name!r} must return scores, or scores and a mapping of axiom residuals."
        )
    scores = pair[0].detach().cpu() if isinstance(pair[0], Tensor) else pair[0]
    axioms = {n: r.cpu() if isinstance(r, Tensor) else r for n, r in pair[1].items()}
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


def describe_origin(loaded: LoadedModel) -> dict[str, Any]:
    """Return the facts on the model and its provenance: versions, device, dtype."""
    return {
        "model": {
            "name": loaded.name,
            "revision": loaded.revision,
            "class": type(loaded.model).__name__,
            "fingerprint": compute_fingerprint(loaded.model),
            "labels": list(loaded.labels),
        },
        "provenance": {
            **_list_versions(),
            "device": str(loaded.device),
            "dtype": str(loaded.dtype).removeprefix("torch."),
            **_describe_infiller(loaded),
        },
    }


def _describe_infiller(loaded: LoadedModel) -> dict[str, str]:
    """Return the name and fingerprint of the infill model, if there is one."""
    if loaded.infiller is None:
        return {}
    own = loaded.infiller.loaded
    return {"mlm": own.name, "mlm_fingerprint": compute_fingerprint(own.model)}


@cache
def _list_versions() -> dict[str, str]:
    """Return the versions of the libraries; cached, because the look-up takes as long as a small model."""
    return {
        "whence": __version__,
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _to_numpy(scores: Tensor, dtype: torch.dtype) -> np.ndarray[Any, Any]:
    """Convert scores to numpy, in the model's dtype, or in float32 for half precision."""
    precision = torch.promote_types(dtype, torch.float32)
    return scores.detach().to(dtype=precision, device="cpu").numpy()


# They need only gradients of the embeddings, or forward passes, which nearly every model offers.
_FALLBACK_METHODS = ("grad_x_input", "leave_one_out")


class FallbackWarning(UserWarning):
    """Warning that the default method does not work on a model, and that another one is used."""


class BatchExplainer:
    """Explains batches with one model, on behalf of an `Explainer`."""

    def __init__(self, loaded: LoadedModel, owner: "Explainer") -> None:
        self.loaded = loaded
        self.sharing = BatchPlanner(loaded)
        self._owner = owner
        self._defaults: dict[
            bool, str
        ] = {}  # the method used by default: for a text (False), for a picture (True)
        self._choices: dict[bool, str] = {}  # the default before it was tried on the model
        self._fallback_reasons: dict[str, str] = {}  # fallback method -> the reason why it is used

    def explain(
        self,
        items: Sequence[EncodedInput],
        requests: Sequence[MethodRequest],
        *,
        spec: TargetSpec,
        policy: BatchRules,
        facts: Mapping[str, Any],
        tally: ProgressCounter,
        answers: PredictionCache | None = None,
        before: int = 0,
        words: bool = True,
    ) -> list[dict[str, Explanation]]:
        """Explain one batch by all methods; a batch that does not fit into memory is halved.

        `before` counts the forwards that each input took already. Without `words`, no method measures whole words:
        that saves model calls where word scores are not shown. `facts` come from `build_metadata()`, which hashes
        the weights: slow on a large model, so once for all batches.
        """
        results: list[dict[str, Explanation]] = []
        work = RetryHalved(
            self.loaded.model,
            ", ".join(sorted(request.name for request in requests)),
            [items],
            lambda part: len(part) * max(len(item) for item in part),
            lambda item: self.sharing.describe_estimate(item, requests),
        )
        for part in work:
            with work.retry_halved(part):
                results += explain_batch(
                    self.loaded,
                    self.collate(part),
                    requests,
                    spec=spec,
                    policy=policy,
                    facts=facts,
                    tally=tally,
                    answers=answers,
                    before=before,
                    words=words,
                    usual=self._choices.get(part[0].picture is not None),
                )
        return [
            {name: self._with_fallback_warning(result) for name, result in by_name.items()}
            for by_name in results
        ]

    def build_metadata(self) -> dict[str, Any]:
        """Return the metadata of every explanation; not cached, as the model may be trained meanwhile."""
        return {**describe_origin(self.loaded), "explainer": self._owner}

    def collate(self, items: Sequence[EncodedInput]) -> Batch:
        """Return the inputs as a batch on the model's device."""
        return collate(items, pad_id=self.loaded.pad_id, device=self.loaded.device)

    def build_prediction_cache(self, policy: BatchRules) -> PredictionCache:
        """Return a cache of the model's predictions."""
        loaded = self.loaded
        return PredictionCache(
            loaded.model,
            pad_id=loaded.pad_id,
            device=loaded.device,
            policy=policy,
            infiller=loaded.infiller,
        )

    def for_modality(self, reads: bool) -> LoadedModel:
        """Return the model; if it takes texts and images, with the replacements for one of them."""
        if self.loaded.modality != "both":
            return self.loaded
        return replace(self.loaded, fillers=select_replacements(self.loaded.fillers, not reads))

    def find_default_method(self, reads: bool) -> str:
        """Return the default method's name, or the first fallback that works on this model.

        Only a run shows what a model lacks: the default is tried once, on a short sample.
        """
        picture = self.loaded.takes_images and not reads
        if picture not in self._defaults:
            self._choices[picture] = choose_default_method(
                self.loaded, picture, not picture and self._is_causal(reads)
            )
            self._defaults[picture] = self._find_working_method(self._choices[picture], reads)
        return self._defaults[picture]

    def _is_causal(self, reads: bool) -> bool:
        """Return whether tokens attend only to earlier tokens; every generating model counts as causal.

        Configurations of classifiers do not tell, so the attention maps of a short sample are looked at.
        """
        if self.loaded.task in ("next", "sequence"):
            return True
        sample, more = build_sample_input(self.loaded, held=reads and self.loaded.takes_images)
        try:
            trace = self._owner.trace(sample, needs=("attention",), **{**more, "truncate": True})
            return trace.is_causal()
        except Exception:  # the error will be raised when the model explains an input
            return False

    def _find_working_method(self, usual: str, reads: bool) -> str:
        """Return the default method, or, with a warning, a fallback that works on this model."""
        if reads and self.loaded.takes_images:  # the reference image is unknown here
            return usual
        sample, more = build_sample_input(self.loaded)
        why = ""
        for name in (usual, *(other for other in _FALLBACK_METHODS if other != usual)):
            try:
                if is_trace_method(
                    registry.get(name)
                ):  # query methods work on every model that runs
                    with warnings.catch_warnings():
                        # Unknown words in the sample are no fault of the model.
                        warnings.filterwarnings(
                            "ignore", "The tokenizer does not know", UserWarning
                        )
                        self._owner.explain(sample, method=name, **more)
            except (NotCapturable, NoRule) as error:
                why = why or str(strip_method_name(error)).partition(" Use ")[0]
                continue
            except Exception:  # any other error will be raised when the model explains an input
                return usual
            if name != usual:
                self._fallback_reasons[name] = (
                    f"{usual}, the default method, does not work on this model, and {name} explains in its place. "
                    f"{why}"
                )
                warnings.warn(self._fallback_reasons[name], FallbackWarning, stacklevel=2)
            return name
        return usual

    def _with_fallback_warning(self, explanation: Explanation) -> Explanation:
        """Return the explanation with a warning, if its method is a fallback for the default."""
        why = self._fallback_reasons.get(explanation.method)
        if why is None:
            return explanation
        return replace(explanation, warnings=(*explanation.warnings, ("other-method", why)))

    def require_head(self) -> None:
        """Refuse a model without a head, or one that takes neither texts nor images."""
        self.loaded.check_input_kind()
        if self.loaded.task == "none":
            raise NoHead(
                f"{self.loaded.name!r} is a {type(self.loaded.model).__name__}: it has no head that whence knows, so "
                "there is no prediction to explain. Load a model for a task: ...ForSequenceClassification, "
                "...ForQuestionAnswering, ...ForTokenClassification, ...ForMaskedLM, ...ForCausalLM, "
                "...ForConditionalGeneration, ...ForImageClassification, or CLIPModel."
            )


SAMPLE_TEXT = "whence tries every method on this short text"


def try_methods(explainer: "Explainer", text: Any) -> dict[str, Any]:
    """Return facts about the model, and for each method whether it works on the text and why not."""
    loaded = explainer.loaded
    text, more = build_sample_input(loaded, text)
    rows = []
    for name in registry.names():
        try:
            # The text is a sample: unknown words in it are no fault of the model.
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The tokenizer does not know", UserWarning)
                explainer.explain(text, method=name, params=_reduce_samples(name, loaded), **more)
            why_not = None
        except WhenceError as error:
            why_not = str(strip_method_name(error))
        except BaseException as error:  # a failing method is a row of the report, not its end
            if not is_failure(error):
                raise
            why_not = f"{type(error).__name__}: {error}".splitlines()[0]
        rows.append({"method": name, "works": why_not is None, "why_not": why_not})
    return {"facts": _describe_model(loaded), "methods": rows}


def build_sample_input(
    loaded: LoadedModel, text: Any = SAMPLE_TEXT, *, held: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Return a short sample input for a model, and the keywords to explain it with.

    With `held` it is a text to be compared with a reference image.
    """
    if held:
        return text, {"image": _build_sample_image(loaded)}
    if loaded.takes_images and text is SAMPLE_TEXT:
        more = {"labels": ["one thing", "another"]} if loaded.modality == "both" else {}
        return _build_sample_image(loaded), more
    if loaded.tokenizer is None or loaded.takes_boxes:
        size = loaded.vocabulary_size or 8
        ids = [i % size for i in range(1, 6)]
        encoded: dict[str, Any] = {"input_ids": [[*ids, *sorted(loaded.anchors)]]}
        if loaded.takes_boxes:
            encoded["bbox"] = [[[10 * i, 10, 10 * i + 8, 20] for i in range(len(ids))]]
        if loaded.needs_pair:
            encoded["token_type_ids"] = [[i % 2 for i in range(len(encoded["input_ids"][0]))]]
        return encoded, {}
    return _adapt_sample_text(text, loaded) if isinstance(text, str) else (text, {})


def _adapt_sample_text(text: str, loaded: LoadedModel) -> tuple[Any, dict[str, Any]]:
    """Return a text in the form that the model's task takes, and the keywords to explain it with."""
    if loaded.needs_pair or loaded.task == "answer" or find_pair_evidence(loaded) is not None:
        return (text, text), {"truncate": True}
    mask = getattr(loaded.tokenizer, "mask_token", None)
    if loaded.task == "mask" and mask is not None and mask not in text:
        return f"{text} {mask}", {}
    return text, {"at": 1} if loaded.task == "tags" else {}


def _build_sample_image(loaded: LoadedModel) -> Any:
    """Return a sample image: a grey gradient, or pixel values of the size in the configuration."""
    if loaded.processor is not None:
        return np.linspace(0, 1, 64 * 64 * 3).reshape(64, 64, 3)
    config = getattr(loaded.model.config, "vision_config", loaded.model.config)
    size = getattr(config, "image_size", 224)
    height, width = (size, size) if isinstance(size, int) else size
    channels = getattr(config, "num_channels", 3)
    return {
        "pixel_values": np.linspace(-1, 1, channels * height * width).reshape(
            channels, height, width
        )
    }


def _reduce_samples(name: str, loaded: LoadedModel) -> dict[str, Any] | None:
    """Return parameters for a quick trial of a method on an image, which has many patches."""
    few = {"lime": {"samples": 16}, "gradient_shap": {"samples": 4}, "smoothgrad": {"samples": 4}}
    return few.get(name) if loaded.takes_images else None


def _describe_model(loaded: LoadedModel) -> dict[str, Any]:
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
        "fingerprint": compute_fingerprint(loaded.model),
    }
