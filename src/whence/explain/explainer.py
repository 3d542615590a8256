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
