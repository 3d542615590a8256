"""`Explainer` and `load`, the entry point: explanations, predictions, trust cards and generations of one model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np
import torch

from whence.core.errors import BadEncoding, EmptyText, NoHead, WhenceError
from whence.core.types import OutputScale, Prediction
from whence.data.batches import plan_batches
from whence.data.removal import Removal
from whence.data.words import Granularity
from whence.explain.batch_explainer import (
    SAMPLE_TEXT,
    BatchExplainer,
    Progress,
    ProgressCounter,
    try_methods,
)
from whence.explain.batch_policy import MAX_INPUTS, MemoryEstimate
from whence.explain.explanation import Explanation
from whence.explain.generation import Generation, GenerationRequest, generate_explained
from whence.explain.inputs import can_take_pairs, encode_inputs, warn_about_unknown_tokens
from whence.explain.inside import PATCHES_NOTE, Inside, open_inside, reopen_inside
from whence.explain.request import MethodRequest, resolve_methods
from whence.explain.tasks import (
    InputFailureCallback,
    TargetedInputs,
    TargetRequest,
    TaskOptions,
    find_pair_evidence,
    group_by_target,
    regroup_explanations,
    resolve_each_target,
    resolve_targets,
)
from whence.explain.tasks.zero_shot import can_zero_shot
from whence.explain.trials import (
    HumanAnnotation,
    MarkFunction,
    Unit,
    assess_trust,
    build_trials,
    encode_dataset,
    explain_or_report,
    restore_input,
)
from whence.metrics._trial import Trial, TrialStep
from whence.models.load import load_model, with_infill_model
from whence.models.model import LoadedModel
from whence.tracing.out_of_memory import build_retry_batches
from whence.tracing.target import build_predictions
from whence.tracing.trace import Trace, run_traced
from whence.trust.card import Trust


class Explainer:
    """An explainer of one model: explanations, predictions, trust cards and generations."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._maker = BatchExplainer(loaded, self)

    @property
    def loaded(self) -> LoadedModel:
        """The loaded model with its tokenizer, labels, limits and replacement tokens."""
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
        """The replacement tokens by name: mask, pad, unk, as far as the model has them.

        With an infill model also draw, the mask that it fills.
        """
        return self._loaded.fillers

    def default_method(self, image: Any = None) -> str:
        """Return the name of the default method; with `image`, that for a text compared with an image."""
        return self._maker.find_default_method(image is not None)

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
        method: str | Sequence[str] | None = None,
        target: Any = None,
        params: Mapping[str, Any] | None = None,
        of: OutputScale = "logit",
        truncate: bool = False,
        batch_size: int = MAX_INPUTS,
        at: Any = None,
        answer: Any = None,
        labels: Sequence[str] | None = None,
        template: str | None = None,
        image: Any = None,
        progress: Progress | None = None,
    ) -> Any:
        """Explain a text, a pair (a, b), a picture, an encoded mapping, or a list of these.

        One input gives an `Explanation`, a list (or a mapping of several rows) a list. With a list of
        methods, each of them is a mapping from method name to `Explanation`; the methods share one forward
        and backward pass where they can.

        `target`: a label, an index, "predicted" (default), "runner-up", or a contrast, which is a tuple: ("positive",
        "negative"). A list of targets is one for each input.
        `of`: explain the "logit" (default) or the "probability".
        `truncate`: cut inputs that are too long instead of refusing them.
        `progress`: called with (units done, units in all).

        Further options depend on the model: `at` says which token, word or mask (taggers explain every
        entity without it, and return a list), `answer` what a language model might go on with, `labels` what to
        choose from (zero-shot classification, in the sentence `template`; pictures against texts), `image` the
        picture that a text is held against.
        """
        about = TargetRequest(target, of, truncate, at, answer, labels, template, image)
        return explain_inputs(
            self._maker,
            text,
            about,
            method=method,
            params=params,
            batch_size=batch_size,
            progress=progress,
        )

    def estimate(
        self,
        text: Any,
        *,
        method: str | Sequence[str] | None = None,
        params: Mapping[str, Any] | None = None,
        truncate: bool = False,
        batch_size: int = MAX_INPUTS,
    ) -> MemoryEstimate | None:
        """Estimate the memory that explaining one input or several takes at its peak, beside the model's weights.

        It is measured on short inputs; `explain` does the same where memory may be scarce, to size its batches.
        None where it cannot be measured.
        """
        requests = resolve_methods(
            self._maker.find_default_method(True) if method is None else method,
            params,
            self.fillers,
        )
        items, _ = encode_inputs(text, self._loaded, truncate=truncate)
        return self._maker.sharing.estimate(items, batch_size, requests)

    def trials(
        self,
        texts: Any,
        *,
        method: str | Sequence[str],
        params: Mapping[str, Any] | None = None,
        target: Any = None,
        of: OutputScale = "logit",
        truncate: bool = False,
        remove: Removal | None = None,
        unit: Unit = "token",
        marks: MarkFunction | None = None,
        known: Sequence[HumanAnnotation] | None = None,
        seed: int = 0,
        failed: InputFailureCallback | None = None,
        parts: Sequence[TrialStep] = (),
        batch_size: int = MAX_INPUTS,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Trial, dict[str, Explanation]]]:
        """Explain a list of inputs; yield the number, the `Trial` and the explanations of each.

        Methods and metrics share their model queries. Inputs come in batches of like length, so not in the order
        given; use a trial up before taking the next one, to save memory. `marks` returns the units that a person
        marked as evidence, from an input's number, the input and its units; `known` has the other annotations of
        each input. With `failed`, failures are reported there, with the input's number and the method, and the rest
        goes on. `parts` are the steps that will use a trial, such as metrics: their model queries are made for all
        inputs of a batch together, before the first trial is yielded.
        """
        yield from build_trials(
            self._maker,
            texts,
            TargetRequest(target, of, truncate),
            method=method,
            params=params,
            remove=remove,
            unit=unit,
            marks=marks,
            known=known,
            seed=seed,
            failed=failed,
            parts=parts,
            batch_size=batch_size,
            progress=progress,
        )

    def explain_each(
        self,
        texts: Any,
        *,
        method: str | Sequence[str],
        failed: InputFailureCallback,
        params: Mapping[str, Any] | None = None,
        target: Any = None,
        truncate: bool = False,
        batch_size: int = MAX_INPUTS,
    ) -> Iterator[tuple[int, dict[str, Explanation]]]:
        """Explain a list of inputs without tests; yield the number and the explanations of each.

        One target of each input is explained. Failures are reported to `failed`, with the input's number and the
        method, and the rest goes on.
        """
        yield from explain_each_input(
            self._maker,
            texts,
            TargetRequest(target, "logit", truncate),
            method=method,
            params=params,
            failed=failed,
            batch_size=batch_size,
        )

    def trust(
        self,
        what: Any,
        *,
        method: str | Sequence[str] | None = None,
        params: Mapping[str, Any] | None = None,
        target: Any = None,
        of: OutputScale = "logit",
        truncate: bool = False,
        remove: Removal | Literal["all"] | None = None,
        unit: Unit = "token",
        budget: int | None = None,
        seed: int = 0,
        progress: Progress | None = None,
        **about: Unpack[TaskOptions],
    ) -> Trust:
        """Explain one input by one or several methods, and test the explanations on that input.

        Instead of an input, `what` may be an `Explanation`: then that one is tested as it is.

        `remove`: how tokens are removed: "mask", "delete", "pad", "unk", "draw" (from a masked language model), or
        "all" of these that the model has (tokens at which it is read are never deleted). `unit`: remove each "token"
        alone or each "word" as a whole.
        `budget`: how often the tests may run the model forward, at most (default 2000, 1000 more for each further
        method, and as many for each further way of removal); what does not fit is not tested.
        The options `about` the input are those of `explain`: at, answer, labels, template, image.
        """
        return assess_trust(
            self._maker,
            what,
            TargetRequest(target, of, truncate, **about),
            method=method,
            params=params,
            remove=remove,
            unit=unit,
            budget=budget,
            seed=seed,
            progress=progress,
        )

    def predict(self, text: Any, *, truncate: bool = False, **about: Unpack[TaskOptions]) -> Any:
        """Return the `Prediction` for one input, or a list of them; of a tagger, one for each entity.

        The options `about` the input are those of `explain`: at, answer, labels, template, image.
        """
        return predict_inputs(self._maker, text, TargetRequest(truncate=truncate, **about))

    def trace(
        self,
        text: Any,
        *,
        target: Any = None,
        of: OutputScale = "logit",
        needs: Iterable[str] = ("attention", "attention_grad", "hidden_grad", "embedding_grad"),
        truncate: bool = False,
        **about: Unpack[TaskOptions],
    ) -> Trace:
        """Return the `Trace` of one batch of inputs: `trace.layer(i).map()`, `.map_grad()`, `.compute_cat()`.

        All inputs go into one batch. The options `about` them are those of `explain`.
        """
        self._maker.require_head()
        request = TargetRequest(target, of, truncate, **about)
        items, _ = encode_inputs(text, self._loaded, truncate=truncate, reads=request.has_image)
        if not items:
            raise EmptyText(
                "There is nothing to trace: the list of inputs is empty. Give at least one."
            )
        targeted = resolve_targets(self._loaded, items, request)
        items = targeted.items
        policy = self._maker.sharing.policy(items, len(items))
        if policy.size < len(items) or len({policy.group_key(item) for item in items}) > 1:
            raise BadEncoding(
                f"{type(self.model).__name__} cannot take these {len(items)} inputs in one batch: padding or the "
                "batch itself would change the answer. Trace them one at a time."
            )
        return run_traced(
            self.model, self._maker.collate(items), needs, targeted.spec, self._loaded.task
        )

    def inside(
        self,
        text: Any,
        *,
        target: Any = None,
        of: OutputScale = "logit",
        truncate: bool = False,
        **about: Unpack[TaskOptions],
    ) -> Inside:
        """Return the `Inside` of the model on one input: attention, flows, heads and ablations.

        Instead of an input, `text` may be an `Explanation`: then it is its input, and its target. A model without a
        classification head can be looked into as well, as far as no decision is needed. The options
        `about` the input are those of `explain`.
        """
        sharing = self._maker.sharing
        if isinstance(text, Explanation):
            return reopen_inside(
                self._loaded, sharing, restore_input(text, self._loaded), text.original_target
            )
        request = TargetRequest(target, of, truncate, **about)
        items, single = encode_inputs(
            text, self._loaded, truncate=truncate, reads=request.has_image
        )
        if not single:
            raise BadEncoding(
                f"inside takes one input at a time. Got {len(items)}: call it for each."
            )
        return open_inside(self._loaded, sharing, items[0], request)

    def entities(self, text: Any, *, truncate: bool = False) -> Any:
        """Return the entities of a text, a list of `TaggedEntity`; for a list of texts, a list of these."""
        if self._loaded.task != "tags":
            raise NoHead(
                f"{type(self.model).__name__} tags no tokens. Load a model ...ForTokenClassification."
            )
        from whence.explain.tasks.tagging import find_entities

        items, single = encode_inputs(text, self._loaded, truncate=truncate)
        entities = find_entities(self._loaded, items)
        return entities[0] if single else entities

    def examine(self, text: Any = SAMPLE_TEXT) -> dict[str, Any]:
        """Try every method on a short text; return facts about the model, and why methods fail."""
        return try_methods(self, text)

    def generate(
        self,
        prompt: Any,
        tokens: int = 20,
        *,
        method: str | None = None,
        params: Mapping[str, Any] | None = None,
        answer: str | None = None,
        granularity: Granularity = "token",
        of: OutputScale = "logit",
        contrast: bool = False,
        truncate: bool = False,
        batch_size: int = MAX_INPUTS,
        progress: Progress | None = None,
    ) -> Generation:
        """Generate an answer to a prompt greedily, and explain each of its tokens.

        `answer`, if given, is explained instead of a generated one.
        `granularity`: how the prompt is divided: "token", "word", "sentence", "paragraph", or "passage", which are
        marked in the prompt as [[...]]; the model does not see the marks.
        `contrast`: explain each token rather than the likeliest other one.
        """
        return generate_explained(
            self._maker,
            prompt,
            GenerationRequest(tokens, answer, granularity, of, contrast, truncate),
            method=method,
            params=params,
            batch_size=batch_size,
            progress=progress,
        )


def explain_inputs(
    maker: BatchExplainer,
    inputs: Any,
    about: TargetRequest,
    *,
    method: str | Sequence[str] | None,
    params: Mapping[str, Any] | None,
    batch_size: int,
    progress: Progress | None,
) -> Any:
    """Explain one input or several; see `Explainer.explain`."""
    maker.require_head()
    method = maker.find_default_method(about.has_image) if method is None else method
    requests = resolve_methods(method, params, maker.for_modality(about.has_image).fillers)
    items, single = encode_inputs(
        inputs, maker.loaded, truncate=about.truncate, reads=about.has_image
    )
    warn_about_unknown_tokens(items, maker.loaded)
    parts = [
        (rows, resolve_targets(maker.loaded, [items[row] for row in rows], request))
        for rows, request in group_by_target(about, len(items))
    ]
    tally = ProgressCounter(progress, [item for _, part in parts for item in part.items], requests)
    facts = maker.build_metadata()
    by_input: list[Any] = [None] * len(items)
    for rows, part in parts:
        results = _explain_batches(
            maker, part, requests, batch_size=batch_size, facts=facts, tally=tally
        )
        explanations: list[Any] = [*results]
        if part.owners is not None:
            explanations = regroup_explanations(part, results, requests, method)
        elif isinstance(method, str):
            explanations = [by_name[requests[0].name] for by_name in results]
        for row, explanation in zip(rows, explanations, strict=True):
            by_input[row] = explanation
    return by_input[0] if single else by_input


def _explain_batches(
    maker: BatchExplainer,
    targeted: TargetedInputs,
    requests: Sequence[MethodRequest],
    *,
    batch_size: int,
    facts: Mapping[str, Any],
    tally: ProgressCounter,
) -> list[dict[str, Explanation]]:
    """Explain inputs that share a target, batch by batch; return the results in input order."""
    items, sharing = targeted.items, maker.sharing
    policy = sharing.policy(items, batch_size, asks=not all(r.reads for r in requests))
    policy = sharing.fit_memory(policy, items, requests)
    results: list[dict[str, Explanation]] = [{} for _ in items]
    for chosen in plan_batches(items, policy):
        explanations = maker.explain(
            [items[i] for i in chosen],
            requests,
            spec=targeted.spec,
            policy=policy,
            facts=facts,
            tally=tally,
            before=targeted.forwards,
        )
        for i, by_name in zip(chosen, explanations, strict=True):
            results[i] = by_name
    return results


def explain_each_input(
    maker: BatchExplainer,
    texts: Any,
    about: TargetRequest,
    *,
    method: str | Sequence[str],
    params: Mapping[str, Any] | None,
    failed: InputFailureCallback,
    batch_size: int,
) -> Iterator[tuple[int, dict[str, Explanation]]]:
    """Explain one target of each input and report failures; see `Explainer.explain_each`."""
    maker.require_head()
    requests = resolve_methods(method, params, maker.loaded.fillers)
    inputs = encode_dataset(texts, maker.loaded, about.truncate, failed)
    if not inputs.items:
        return
    warn_about_unknown_tokens(inputs.items, maker.loaded)
    facts, sharing = maker.build_metadata(), maker.sharing
    for numbers, targeted in resolve_each_target(maker.loaded, inputs, about, failed):
        items = targeted.items
        policy = sharing.policy(items, batch_size, asks=not all(r.reads for r in requests))
        policy = sharing.fit_memory(policy, items, requests)
        explain = partial(
            maker.explain,
            spec=targeted.spec,
            policy=policy,
            facts=facts,
            tally=ProgressCounter(None, items, requests),
            before=targeted.forwards,
            words=False,  # runs store token scores only
        )
        for chosen in plan_batches(items, policy):
            rows, batch = [numbers[i] for i in chosen], [items[i] for i in chosen]
            results = explain_or_report(explain, batch, rows, requests, failed)
            yield from ((row, result) for row, result in zip(rows, results, strict=True) if result)


def predict_inputs(maker: BatchExplainer, inputs: Any, about: TargetRequest) -> Any:
    """Return the predictions for one input or several; see `Explainer.predict`."""
    maker.require_head()
    loaded = maker.loaded
    items, single = encode_inputs(inputs, loaded, truncate=about.truncate, reads=about.has_image)
    parts = group_by_target(about, len(items))
    if len(parts) > 1:  # the inputs have different targets or answers
        by_input: list[Any] = [None] * len(items)
        for rows, request in parts:
            group = _predict_targets(
                maker, resolve_targets(loaded, [items[row] for row in rows], request)
            )
            for row, prediction in zip(rows, group, strict=True):
                by_input[row] = prediction
        return by_input
    targeted = resolve_targets(loaded, items, about)
    predictions = _predict_targets(maker, targeted)
    return predictions[0] if single and targeted.owners is None else predictions


def _predict_targets(maker: BatchExplainer, targeted: TargetedInputs) -> list[Prediction | None]:
    loaded = maker.loaded
    predictions: list[Prediction | None] = [None] * len(targeted.items)
    policy = maker.sharing.policy(targeted.items)
    work = build_retry_batches(loaded.model, "predictions", targeted.items, policy)
    for chosen in work:
        with work.retry_halved(chosen):
            batch = maker.collate([targeted.items[i] for i in chosen])
            trace = run_traced(loaded.model, batch, (), targeted.spec, loaded.task)
            outputs = build_predictions(trace.logits, loaded.task, loaded.labels, batch.items)
            for i, prediction in zip(chosen, outputs, strict=True):
                predictions[i] = prediction
    return predictions


def load(
    what: Any,
    *,
    tokenizer: Any = None,
    processor: Any = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    mlm: Any = None,
    checkpoint: bool = False,
) -> Explainer:
    """Make an explainer of a built-in model, a folder, a Hub id or a model object.

    `dtype` is a torch dtype or its name. None keeps the checkpoint's, except that half precision is
    computed in float32 on a CPU. `device` None takes the GPU if there is one. A model object stays where and
    as it is: another device or dtype means a copy. A picture model comes with its image `processor`; to a model
    object, give its own, or a folder or Hub id that has it.

    `mlm` is a masked language model with the same vocabulary: a built-in name ("reviews-base" for "reviews"), a
    folder, a Hub id or a model object. With it, tokens can be removed by drawing others instead: remove="draw".

    `checkpoint` keeps only the input of each block of the model, and runs the block again when its gradient is taken:
    a second forward pass for a fraction of the memory, and the same numbers.
    """
    loaded = load_model(
        what,
        tokenizer=tokenizer,
        processor=processor,
        device=device,
        dtype=dtype,
        revision=revision,
    )
    loaded = replace(loaded, checkpoint=checkpoint)
    return Explainer(loaded if mlm is None else with_infill_model(loaded, mlm))


_PROBE_TEXT = "whence looks inside"
_TWO_TOWERS_NOTE = (
    "A text and a picture go through a model each, and meet at the end: how information flowed there is not drawn. "
    "The scores show what of the one speaks for the other."
)
_GREY_IMAGE = np.full((32, 32, 3), 128, dtype=np.uint8)


def describe_model_options(explainer: "Explainer") -> dict[str, Any]:
    """Return the facts of a model for a list of models: labels, task, modality, limits."""
    loaded = explainer.loaded
    return {
        "kind": type(loaded.model).__name__,
        "labels": list(loaded.labels),
        "task": loaded.task,
        "modality": loaded.modality,
        "mask": _get_mask_token(loaded) if loaded.task == "mask" else None,
        "zero_shot": can_zero_shot(loaded),
        "method": explainer.default_method(),
        "draws": loaded.takes_images and loaded.name == "shapes",
        "pairs": loaded.needs_pair or loaded.task == "answer",
        "takes_pairs": not loaded.takes_images and can_take_pairs(loaded),
        "reads_pairs": find_pair_evidence(loaded) is not None,
        "longest": loaded.max_length,
        **find_attention_size(explainer),
    }


def find_attention_size(explainer: "Explainer") -> dict[str, Any]:
    """Return the numbers of layers and heads by a test run, or the reason why there is no attention."""
    nothing: dict[str, Any] = {"layers": None, "heads": None}
    loaded = explainer.loaded
    if loaded.modality == "both":
        return {**nothing, "attention": _TWO_TOWERS_NOTE}
    two = loaded.needs_pair or loaded.task == "answer" or find_pair_evidence(loaded) is not None
    # A tagger is asked about token 1, as it would find no entity in the probe text.
    at = 1 if loaded.task == "tags" else None
    text: Any = (_PROBE_TEXT, _PROBE_TEXT) if two else _PROBE_TEXT
    try:
        inside = explainer.inside(
            _GREY_IMAGE if loaded.takes_images else text, truncate=True, at=at
        )
        inside.attention()
        why_not = PATCHES_NOTE if loaded.takes_images else None
        return {"layers": inside.layers, "heads": inside.heads, "attention": why_not}
    except WhenceError as error:
        return {**nothing, "attention": str(error)}


def _get_mask_token(loaded: LoadedModel) -> str | None:
    return getattr(loaded.tokenizer, "mask_token", None)
