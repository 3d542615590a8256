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
