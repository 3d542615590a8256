"""`Explainer` and `load`, the entry point: explanations, predictions, trust cards and generations of one model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Literal, Unpack, overload

import torch

from whence.core.errors import BadEncoding, BadParameter, EmptyText, NoHead
from whence.core.progress import Progress
from whence.core.types import OutputScale, Prediction
from whence.data.batches import Batch, collate
from whence.data.removal import BULK_REMOVALS, Removal, resolve_removal, select_replacements
from whence.data.words import Granularity
from whence.explain.batch_policy import choose_batch_policy, map_batches
from whence.explain.examine import (
    SAMPLE_TEXT,
    DefaultMethods,
    try_methods,
)
from whence.explain.explanation import Explanation
from whence.explain.explanations import (
    Explanations,
    ScoreArrays,
    assemble_explanations,
    collect_arrays,
)
from whence.explain.generation import Generation, generate_explained
from whence.explain.inputs import (
    InputFailureCallback,
    encode_dataset,
    encode_inputs,
    warn_about_unknown_tokens,
)
from whence.explain.inside import Inside, open_inside
from whence.explain.pipeline import explain_batches
from whence.explain.request import resolve_methods
from whence.explain.tasks import (
    TargetedInputs,
    TargetRequest,
    TaskOptions,
    group_by_target,
    resolve_common_target,
    resolve_each_target,
    resolve_targets,
)
from whence.explain.trials import (
    HumanAnnotation,
    MarkFunction,
    Unit,
    assess_trust,
    build_trials,
    restore_input,
)
from whence.metrics._trial import Trial, TrialStep
from whence.models.load import load_model, with_infill_model
from whence.models.model import LoadedModel
from whence.tracing.target import TargetSpec, build_predictions
from whence.tracing.trace import Trace, run_traced
from whence.trust.card import Trust

OneText = str | tuple[str, str]
# Several inputs; a list of chat messages alone is one, and gives an `Explanation`.
Texts = list[Any]


class ExplainOptions(TaskOptions, total=False):
    """Options of `Explainer.explain` beside the input and the methods."""

    target: Any
    params: Mapping[str, Any] | None
    of: OutputScale
    truncate: bool
    batch_size: int | None
    progress: Progress | None


class Explainer:
    """An explainer of one model: explanations, predictions, trust cards and generations."""

    def __init__(self, loaded: LoadedModel) -> None:
        # The loaded model with its tokenizer, labels, limits and replacement tokens.
        self.loaded = loaded
        self.defaults = DefaultMethods(self)

    @property
    def model(self) -> Any:
        """The transformers model."""
        return self.loaded.model

    @property
    def tokenizer(self) -> Any | None:
        """Its tokenizer, if it has one."""
        return self.loaded.tokenizer

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the outputs."""
        return self.loaded.labels

    @property
    def fillers(self) -> Mapping[str, int]:
        """The replacement tokens by name: mask, pad, unk, as far as the model has them.

        With an infill model also draw, the mask that it fills.
        """
        return self.loaded.fillers

    def default_method(self, image: Any = None) -> str:
        """Return the name of the default method; with `image`, that for a text compared with an image."""
        return self.defaults.find(image is not None)

    def __repr__(self) -> str:
        loaded = self.loaded
        return (
            f"<Explainer {loaded.name}: {type(loaded.model).__name__}, labels {list(loaded.labels)}, "
            f"{str(loaded.dtype).removeprefix('torch.')} on {loaded.device}>"
        )

    @overload
    def explain(
        self,
        text: Any,
        *,
        as_arrays: Literal[True],
        method: Any = None,
        **options: Unpack[ExplainOptions],
    ) -> ScoreArrays: ...
    @overload
    def explain(
        self, text: OneText, *, method: str | None = None, **options: Unpack[ExplainOptions]
    ) -> Explanation: ...
    @overload
    def explain(
        self, text: Texts, *, method: Any = None, **options: Unpack[ExplainOptions]
    ) -> Explanations: ...
    @overload
    def explain(
        self, text: Any, *, method: list[str] | tuple[str, ...], **options: Unpack[ExplainOptions]
    ) -> Explanations: ...
    @overload
    def explain(
        self, text: Any, *, method: Any = None, **options: Unpack[ExplainOptions]
    ) -> Explanation | Explanations: ...
    def explain(
        self,
        text: Any,
        *,
        method: str | Sequence[str] | None = None,
        target: Any = None,
        params: Mapping[str, Any] | None = None,
        of: OutputScale = "logit",
        truncate: bool = False,
        batch_size: int | None = None,
        at: Any = None,
        answer: Any = None,
        labels: Sequence[str] | None = None,
        template: str | None = None,
        image: Any = None,
        progress: Progress | None = None,
        as_arrays: bool = False,
    ) -> Explanation | Explanations | ScoreArrays:
        """Explain a text, a pair (a, b), a picture, an encoded mapping, or a list of these.

        One input by one method gives an `Explanation`; several of either an `Explanations`, a sequence that is also
        indexed by method. The methods share one forward and backward pass where they can.

        `target`: a label, an index, "predicted" (default), "runner-up", or a contrast, which is a tuple: ("positive",
        "negative"). A list of targets is one for each input.
        `of`: explain the "logit" (default) or the "probability".
        `truncate`: cut inputs that are too long instead of refusing them.
        `batch_size`: inputs at a time, at most; by default what suits the device.
        `progress`: called with (units done, units in all).
        `as_arrays`: return the scores alone, a `ScoreArrays`: by method, one array for each input.

        Further options depend on the model: `at` says which token, word or mask (taggers explain every
        entity without it, and return an `Explanations`), `answer` what a language model might go on with, `labels`
        what to choose from (zero-shot classification, in the sentence `template`; pictures against texts), `image`
        the picture that a text is held against.
        """
        about = TargetRequest(target, of, truncate, at, answer, labels, template, image)
        loaded = self.loaded
        loaded.check_head()
        names = self.default_method(image) if method is None else method
        fillers = loaded.fillers
        if loaded.modality == "both":
            fillers = select_replacements(fillers, pictures=image is None)
        requests = resolve_methods(names, params, fillers)
        items, single = encode_inputs(text, loaded, truncate=truncate, reads=image is not None)
        warn_about_unknown_tokens(items, loaded)
        parts = [
            (rows, resolve_common_target(loaded, [items[row] for row in rows], own))
            for rows, own in group_by_target(about, len(items))
        ]
        if as_arrays and any(targeted.join is not None for _, targeted in parts):
            raise BadParameter(
                "as_arrays=True gives the scores of one explanation each, and a contrast of two long answers is the "
                "difference of two. Leave as_arrays out."
            )
        numbers = count()  # of all targeted inputs
        groups = [([next(numbers) for _ in targeted.items], targeted) for _, targeted in parts]
        results: dict[int, dict[str, Explanation]] = {}
        for batch in explain_batches(
            self, groups, requests, size=batch_size, progress=progress, bare=as_arrays
        ):
            results |= zip(batch.numbers, batch.results, strict=True)
        ordered = [results[number] for number in range(len(results))]
        if as_arrays:
            return collect_arrays(parts, ordered, requests)
        several = not isinstance(names, str)
        return assemble_explanations(
            parts, ordered, requests, single=single, several_methods=several
        )

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
        batch_size: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Trial, dict[str, Explanation]]]:
        """Explain a list of inputs; yield the number, the `Trial` and the explanations of each.

        Methods and metrics share their model queries. Inputs come in batches of like length, so not in the order
        given; use a trial up before taking the next one, to save memory. `marks` returns the units that a person
        marked as evidence, from an input's number, the input and its units; `known` has the other annotations of
        each input. With `failed`, failures are reported there, with the input's number and the method, and the rest
        goes on. `parts` are steps on a trial, such as metrics, as functions or generators of requests: those of all
        inputs of a batch are run together before the first trial is yielded, and `trial.results` has what they
        return.
        """
        loaded, about = self.loaded, TargetRequest(target, of, truncate)
        requests = resolve_methods(method, params, loaded.fillers)
        loaded.check_head()
        how = resolve_removal(remove, loaded.fillers, BULK_REMOVALS)
        inputs = encode_dataset(texts, loaded, truncate, failed)
        for batch in explain_batches(
            self,
            list(resolve_each_target(loaded, inputs, about, failed)),
            requests,
            size=batch_size,
            progress=progress,
            failed=failed,
            words=unit == "word",
            tests=True,
        ):
            yield from build_trials(
                loaded, batch, how=how, unit=unit, marks=marks, known=known, seed=seed, parts=parts
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
        words: bool = False,
        batch_size: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, dict[str, Explanation]]]:
        """Explain a list of inputs without tests; yield the number and the explanations of each.

        One target of each input is explained. Failures are reported to `failed`, with the input's number and the
        method, and the rest goes on. With `words`, methods that can measure whole words do.
        """
        self.loaded.check_head()
        requests = resolve_methods(method, params, self.loaded.fillers)
        inputs = encode_dataset(texts, self.loaded, truncate, failed)
        warn_about_unknown_tokens(inputs.items, self.loaded)
        about = TargetRequest(target, "logit", truncate)
        for batch in explain_batches(
            self,
            list(resolve_each_target(self.loaded, inputs, about, failed)),
            requests,
            size=batch_size,
            progress=progress,
            failed=failed,
            words=words,
        ):
            yield from (pair for pair in zip(batch.numbers, batch.results, strict=True) if pair[1])

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
            self,
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
        self.loaded.check_head()
        request, loaded = TargetRequest(truncate=truncate, **about), self.loaded
        items, single = encode_inputs(text, loaded, truncate=truncate, reads=request.has_image)
        by_input: dict[int, Any] = {}
        for rows, own in group_by_target(request, len(items)):
            targeted = resolve_common_target(loaded, [items[row] for row in rows], own)
            predictions = _predict_targets(loaded, targeted)
            if targeted.owners is not None:  # one for each entity, or answer
                return predictions
            by_input |= zip(rows, predictions, strict=True)
        return by_input[0] if single else [by_input[row] for row in sorted(by_input)]

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
        self.loaded.check_head()
        request = TargetRequest(target, of, truncate, **about)
        items, _ = encode_inputs(text, self.loaded, truncate=truncate, reads=request.has_image)
        if not items:
            raise EmptyText(
                "There is nothing to trace: the list of inputs is empty. Give at least one."
            )
        targeted = resolve_targets(self.loaded, items, request)
        items = targeted.items
        policy = choose_batch_policy(self.loaded, items, len(items))
        if policy.size < len(items) or len({policy.group_key(item) for item in items}) > 1:
            raise BadEncoding(
                f"{type(self.model).__name__} cannot take these {len(items)} inputs in one batch: padding or the "
                "batch itself would change the answer. Trace them one at a time."
            )
        batch = collate(items, pad_id=self.loaded.pad_id, device=self.loaded.device)
        return run_traced(self.model, batch, needs, targeted.spec, self.loaded.task)

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
        if isinstance(text, Explanation):
            spec = TargetSpec.from_targets([text.original_target])
            return Inside(self.loaded, restore_input(text, self.loaded), spec)
        request = TargetRequest(target, of, truncate, **about)
        items, single = encode_inputs(text, self.loaded, truncate=truncate, reads=request.has_image)
        if not single:
            raise BadEncoding(
                f"inside takes one input at a time. Got {len(items)}: call it for each."
            )
        return open_inside(self.loaded, items[0], request)

    def entities(self, text: Any, *, truncate: bool = False) -> Any:
        """Return the entities of a text, a list of `TaggedEntity`; for a list of texts, a list of these."""
        if self.loaded.task != "tags":
            raise NoHead(
                f"{type(self.model).__name__} tags no tokens. Load a model ...ForTokenClassification."
            )
        from whence.explain.tasks.tagging import find_entities

        items, single = encode_inputs(text, self.loaded, truncate=truncate)
        entities = find_entities(self.loaded, items)
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
        batch_size: int | None = None,
        progress: Progress | None = None,
    ) -> Generation:
        """Generate an answer to a prompt greedily, and explain each of its tokens.

        `answer`, if given, is explained instead of a generated one.
        `granularity`: how the prompt is divided: "token", "word", "sentence", "paragraph", or "passage", which are
        marked in the prompt as [[...]]; the model does not see the marks.
        `contrast`: explain each token rather than the likeliest other one.
        """
        return generate_explained(
            self,
            prompt,
            tokens,
            method=method,
            params=params,
            answer=answer,
            granularity=granularity,
            of=of,
            contrast=contrast,
            truncate=truncate,
            batch_size=batch_size,
            progress=progress,
        )


def _predict_targets(loaded: LoadedModel, targeted: TargetedInputs) -> list[Prediction]:
    def predict(_: Sequence[int], batch: Batch) -> list[Prediction]:
        trace = run_traced(loaded.model, batch, (), targeted.spec, loaded.task)
        return build_predictions(trace.logits.cpu(), loaded.task, loaded.labels, batch.items)

    policy = choose_batch_policy(loaded, targeted.items)
    return map_batches(loaded, "predictions", targeted.items, policy, predict)


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
