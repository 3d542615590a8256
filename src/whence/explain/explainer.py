"""The explainer: inputs to batches, one shared trace per batch, methods over it, results in order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Unpack

from whence.capture import Trace, trace
from whence.core.errors import BadEncoding, EmptyText, NoHead
from whence.core.types import Of
from whence.data.removal import Removal
from whence.data.text.pieces import Granularity
from whence.explainer.aims import About, Asked, aim
from whence.explainer.aims.each import Failed
from whence.explainer.examine import SHORT, examined
from whence.explainer.explaining import explained_each, explanations, predicted
from whence.explainer.explanation import Explanation
from whence.explainer.generation.generate import Wanted, generated
from whence.explainer.generation.generation import Generation
from whence.explainer.inside.inside import Inside
from whence.explainer.inside.looking import again, look
from whence.explainer.intake import take
from whence.explainer.maker import Maker
from whence.explainer.request import requests
from whence.explainer.sharing import INPUTS, Estimate
from whence.explainer.verify.restored import item_of
from whence.explainer.verify.testing import Known, Marks, Unit
from whence.explainer.verify.trials import trials
from whence.explainer.verify.trusting import trusted
from whence.explainer.work import Progress
from whence.models import Loaded
from whence.trial import Trial
from whence.trial.rehearsal import Part
from whence.trust import Trust


class Explainer:
    """A model that can be asked why."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._maker = Maker(loaded, self)

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

    def default_method(self, image: Any = None) -> str:
        """Name the method that explains where none is asked for; `image`: a text is explained, held against it."""
        return self._maker.method(image is not None)

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
        of: Of = "logit",
        truncate: bool = False,
        batch_size: int = INPUTS,
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

        What else can be asked depends on the model: `at` says which token, word or mask (taggers explain every
        entity without it, and return a list), `answer` what a language model might go on with, `labels` what to
        choose from (zero-shot classification, in the sentence `template`; pictures against texts), `image` the
        picture that a text is held against.
        """
        about = Asked(target, of, truncate, at, answer, labels, template, image)
        return explanations(
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
        batch_size: int = INPUTS,
    ) -> Estimate | None:
        """Estimate the memory that explaining one input or several takes at its peak, beside the model's weights.

        Something short is explained to find out. `explain` does so by itself where memory may be scarce, and sizes
        its batches by it. None where it cannot be found out.
        """
        asked = requests(
            self._maker.method(True) if method is None else method, params, self.fillers
        )
        items, _ = take(text, self._loaded, truncate=truncate)
        return self._maker.sharing.estimate(items, batch_size, asked)

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
        known: Sequence[Known] | None = None,
        seed: int = 0,
        failed: Failed | None = None,
        parts: Sequence[Part] = (),
        batch_size: int = INPUTS,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Trial, dict[str, Explanation]]]:
        """Explain a list of inputs and put each on trial: yield its number, the `Trial` and the explanations.

        What a method asks and what a metric asks is asked once. Inputs come in batches of like length, so not in
        the order given; a trial is to be used up before the next one is taken, for memory's sake. `marks` says which
        units a person called evidence, given an input's number, the input and its units; `known`, input by input,
        what else people said. With `failed`, what cannot be explained is reported there, with the input's number and
        the method, and the rest goes on. `parts` are what will be done with a trial, such as running a metric: what
        they will ask the model is asked of all inputs of a batch together, before the first trial comes.
        """
        yield from trials(
            self._maker,
            texts,
            Asked(target, of, truncate),
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
        failed: Failed,
        params: Mapping[str, Any] | None = None,
        target: Any = None,
        truncate: bool = False,
        batch_size: int = INPUTS,
    ) -> Iterator[tuple[int, dict[str, Explanation]]]:
        """Explain a list of inputs as `trials` does, and test nothing: yield the number of each and its explanations.

        One thing is explained of each input. What cannot be explained is reported to `failed`, with the input's
        number and the method, and the rest goes on.
        """
        yield from explained_each(
            self._maker,
            texts,
            Asked(target, "logit", truncate),
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
        of: Of = "logit",
        truncate: bool = False,
        remove: Removal | Literal["all"] | None = None,
        unit: Unit = "token",
        budget: int | None = None,
        seed: int = 0,
        progress: Progress | None = None,
        **about: Unpack[About],
    ) -> Trust:
        """Explain one input by one or several methods and test what they claim, on this very input.

        Instead of an input, `what` may be an `Explanation`: then that one is tested as it is.

        `remove`: how tokens are removed: "mask", "delete", "pad", "unk", "draw" (from a masked language model), or
        "all" of these that the model has (tokens at which it is read are never deleted). `unit`: remove each "token"
        alone or each "word" as a whole.
        `budget`: how often the tests may run the model forward, at most (default 2000, 1000 more for each further
        method, and as many for each further way of removal); what does not fit is not tested.
        What else can be asked `about` the input is as in `explain`: at, answer, labels, template, image.
        """
        return trusted(
            self._maker,
            what,
            Asked(target, of, truncate, **about),
            method=method,
            params=params,
            remove=remove,
            unit=unit,
            budget=budget,
            seed=seed,
            progress=progress,
        )

    def predict(self, text: Any, *, truncate: bool = False, **about: Unpack[About]) -> Any:
        """Return the `Prediction` for one input, or a list of them; of a tagger, one for each entity.

        What else can be asked `about` the input is as in `explain`: at, answer, labels, template, image.
        """
        return predicted(self._maker, text, Asked(truncate=truncate, **about))

    def trace(
        self,
        text: Any,
        *,
        target: Any = None,
        of: Of = "logit",
        needs: Iterable[str] = ("attention", "attention_grad", "hidden_grad", "embedding_grad"),
        truncate: bool = False,
        **about: Unpack[About],
    ) -> Trace:
        """Return what readers read, for looking inside: `trace.layer(i).map()`, `.map_grad()`, `.cat()`.

        All inputs go into one batch. What else can be asked `about` them is as in `explain`.
        """
        self._maker.require_head()
        asked = Asked(target, of, truncate, **about)
        items, _ = take(text, self._loaded, truncate=truncate, reads=asked.reads)
        if not items:
            raise EmptyText(
                "There is nothing to trace: the list of inputs is empty. Give at least one."
            )
        aimed = aim(self._loaded, items, asked)
        items = aimed.items
        policy = self._maker.sharing.policy(items, len(items))
        if policy.size < len(items) or len({policy.kind(item) for item in items}) > 1:
            raise BadEncoding(
                f"{type(self.model).__name__} cannot take these {len(items)} inputs in one batch: padding or the "
                "batch itself would change the answer. Trace them one at a time."
            )
        return trace(self.model, self._maker.collate(items), needs, aimed.spec, self._loaded.task)

    def inside(
        self,
        text: Any,
        *,
        target: Any = None,
        of: Of = "logit",
        truncate: bool = False,
        **about: Unpack[About],
    ) -> Inside:
        """Look inside the model on one input: its attention, flows along it, its heads, and what cuts do.

        Instead of an input, `text` may be an `Explanation`: then it is its input, and its target. A model without a
        classification head can be looked into as well, as far as no decision is needed. What else can be asked
        `about` the input is as in `explain`.
        """
        sharing = self._maker.sharing
        if isinstance(text, Explanation):
            return again(self._loaded, sharing, item_of(text, self._loaded), text.asked)
        asked = Asked(target, of, truncate, **about)
        items, single = take(text, self._loaded, truncate=truncate, reads=asked.reads)
        if not single:
            raise BadEncoding(
                f"inside takes one input at a time. Got {len(items)}: call it for each."
            )
        return look(self._loaded, sharing, items[0], asked)

    def entities(self, text: Any, *, truncate: bool = False) -> Any:
        """Return what a tagger finds in a text: a list of `Tagged`, or for a list of texts a list of these."""
        if self._loaded.task != "tags":
            raise NoHead(
                f"{type(self.model).__name__} tags no tokens. Load a model ...ForTokenClassification."
            )
        from whence.explainer.aims.tags import entities

        items, single = take(text, self._loaded, truncate=truncate)
        found = entities(self._loaded, items)
        return found[0] if single else found

    def examine(self, text: Any = SHORT) -> dict[str, Any]:
        """Find out by trying what can be explained on this model, and why not."""
        return examined(self, text)

    def generate(
        self,
        prompt: Any,
        tokens: int = 20,
        *,
        method: str | None = None,
        params: Mapping[str, Any] | None = None,
        answer: str | None = None,
        granularity: Granularity = "token",
        of: Of = "logit",
        contrast: bool = False,
        truncate: bool = False,
        batch_size: int = INPUTS,
        progress: Progress | None = None,
    ) -> Generation:
        """Let a language model go on from a prompt, by its likeliest tokens, and explain each of them.

        `answer` is explained instead of what the model would say, if it is given.
        `granularity`: how the prompt is divided: "token", "word", "sentence", "paragraph", or "passage", which are
        marked in the prompt as [[...]]; the model does not see the marks.
        `contrast`: explain each token rather than the likeliest other one.
        """
        return generated(
            self._maker,
            prompt,
            Wanted(tokens, answer, granularity, of, contrast, truncate),
            method=method,
            params=params,
            batch_size=batch_size,
            progress=progress,
        )


"""Finding out by trying what can be explained on a model."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.core.errors import WhenceError
from whence.core.failure import is_failure
from whence.explainer.aims.pairing import why_pairs
from whence.explainer.work import unnamed
from whence.methods import method as registry
from whence.models import Loaded, fingerprint

if TYPE_CHECKING:
    from whence.explainer.explainer import Explainer

SHORT = "whence tries every method on this short text"


def examined(explainer: "Explainer", text: Any) -> dict[str, Any]:
    """Return facts about the model, and for each method whether it works on the text and why not."""
    loaded = explainer.loaded
    text, more = sample(loaded, text)
    tried = []
    for name in registry.names():
        try:
            # The text is an example: whether a model knows its words is nothing against the model.
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The tokenizer does not know", UserWarning)
                explainer.explain(text, method=name, params=_few(name, loaded), **more)
            why_not = None
        except WhenceError as error:
            why_not = str(unnamed(error))
        except BaseException as error:  # a report of what fails must not fail itself
            if not is_failure(error):
                raise
            why_not = f"{type(error).__name__}: {error}".splitlines()[0]
        tried.append({"method": name, "works": why_not is None, "why_not": why_not})
    return {"facts": _facts(loaded), "methods": tried}


def sample(loaded: Loaded, text: Any = SHORT, *, held: bool = False) -> tuple[Any, dict[str, Any]]:
    """Return something short to try a model on, as it can read it, and what to ask about it.

    With `held` it is a text that is held against a picture.
    """
    if held:
        return text, {"image": _picture(loaded)}
    if loaded.sees and text is SHORT:
        more = {"labels": ["one thing", "another"]} if loaded.modality == "both" else {}
        return _picture(loaded), more
    if loaded.tokenizer is None or loaded.boxed:
        size = loaded.vocabulary or 8
        ids = [i % size for i in range(1, 6)]
        encoded: dict[str, Any] = {"input_ids": [[*ids, *sorted(loaded.anchors)]]}
        if loaded.boxed:
            encoded["bbox"] = [[[10 * i, 10, 10 * i + 8, 20] for i in range(len(ids))]]
        if loaded.pairs:
            encoded["token_type_ids"] = [[i % 2 for i in range(len(encoded["input_ids"][0]))]]
        return encoded, {}
    return _readable(text, loaded) if isinstance(text, str) else (text, {})


def _readable(text: str, loaded: Loaded) -> tuple[Any, dict[str, Any]]:
    """Return a text as a model of this task can read it, and what to ask about it."""
    if loaded.pairs or loaded.task == "answer" or why_pairs(loaded) is not None:
        return (text, text), {"truncate": True}
    mask = getattr(loaded.tokenizer, "mask_token", None)
    if loaded.task == "mask" and mask is not None and mask not in text:
        return f"{text} {mask}", {}
    return text, {"at": 1} if loaded.task == "tags" else {}


def _picture(loaded: Loaded) -> Any:
    """Return a picture to try methods on: a slope of greys, or pixels of the size that the model says."""
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


def _few(name: str, loaded: Loaded) -> dict[str, Any] | None:
    """Return settings that try a method quickly on a picture, of which patches are many."""
    few = {"lime": {"samples": 16}, "gradient_shap": {"samples": 4}, "smoothgrad": {"samples": 4}}
    return few.get(name) if loaded.sees else None


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


"""Making an explainer of whatever names a model."""

from dataclasses import replace
from typing import Any

import torch

from whence.capture import compile_forward
from whence.explainer.explainer import Explainer
from whence.models import load as load_model
from whence.models import with_infiller


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
    compile: bool = False,
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

    `compile` lets `torch.compile` take the model's bare forward pass, for methods and tests that run it many times:
    equal to rounding. The first pass takes a minute or several, again for inputs one at a time; where it cannot be
    compiled, a warning says why, and it runs as it is. A model object is compiled for every explainer that has it.
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
    if compile:
        compile_forward(loaded.model)
    return Explainer(loaded if mlm is None else with_infiller(loaded, mlm))


"""What a page must know of a model to ask it something: its task, what it takes, whether it can be looked into."""

from typing import TYPE_CHECKING, Any

import numpy as np

from whence.core.errors import WhenceError
from whence.explainer.aims.pairing import why_pairs
from whence.explainer.aims.zero_shot import can_zero_shot
from whence.explainer.inside.inside import PATCHES
from whence.explainer.intake import takes_pairs
from whence.models import Loaded

if TYPE_CHECKING:
    from whence.explainer.explainer import Explainer

_PROBE = "whence looks inside"
_TOWERS = (
    "A text and a picture go through a model each, and meet at the end: how information flowed there is not drawn. "
    "The scores show what of the one speaks for the other."
)
_GREY = np.full((32, 32, 3), 128, dtype=np.uint8)


def offers(explainer: "Explainer") -> dict[str, Any]:
    """Return the facts of a model that a list of models says."""
    loaded = explainer.loaded
    return {
        "kind": type(loaded.model).__name__,
        "labels": list(loaded.labels),
        "task": loaded.task,
        "modality": loaded.modality,
        "mask": _mask(loaded) if loaded.task == "mask" else None,
        "zero_shot": can_zero_shot(loaded),
        "method": explainer.default_method(),
        "draws": loaded.sees and loaded.name == "shapes",
        "pairs": loaded.pairs or loaded.task == "answer",
        "takes_pairs": not loaded.sees and takes_pairs(loaded),
        "reads_pairs": why_pairs(loaded) is not None,
        "longest": loaded.max_length,
        **attention(explainer),
    }


def attention(explainer: "Explainer") -> dict[str, Any]:
    """Find out by trying how many layers and heads there are to look at, and if there are none, why."""
    nothing: dict[str, Any] = {"layers": None, "heads": None}
    loaded = explainer.loaded
    if loaded.modality == "both":
        return {**nothing, "attention": _TOWERS}
    two = loaded.pairs or loaded.task == "answer" or why_pairs(loaded) is not None
    # Of a tagger one token is asked about: in these words there is nothing to be found.
    at = 1 if loaded.task == "tags" else None
    text: Any = (_PROBE, _PROBE) if two else _PROBE
    try:
        inside = explainer.inside(_GREY if loaded.sees else text, truncate=True, at=at)
        inside.attention()
        why_not = PATCHES if loaded.sees else None
        return {"layers": inside.layers, "heads": inside.heads, "attention": why_not}
    except WhenceError as error:
        return {**nothing, "attention": str(error)}


def _mask(loaded: Loaded) -> str | None:
    return getattr(loaded.tokenizer, "mask_token", None)
