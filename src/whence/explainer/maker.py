"""Who makes explanations: a model, what may share a batch on it, and what every explanation says of its origin."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whence.capture import Answers, TargetSpec
from whence.capture.memory.fitting import Fitting
from whence.core.errors import NoHead
from whence.data import Batch, Encoded, Policy, collate
from whence.data.removal import suited
from whence.explainer.explanation import Explanation
from whence.explainer.request import Request, default
from whence.explainer.sharing import Sharing
from whence.explainer.work import Tally, explain_batch, origin
from whence.models import Loaded

if TYPE_CHECKING:
    from whence.explainer.explainer import Explainer


class Maker:
    """Explains batches on one model, for the explainer whose model it is."""

    def __init__(self, loaded: Loaded, owner: "Explainer") -> None:
        self.loaded = loaded
        self.sharing = Sharing(loaded)
        self._owner = owner

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
    ) -> list[dict[str, Explanation]]:
        """Explain one batch by all methods; `before` counts the forwards that each input took already.

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
                )
        return found

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
        """Name the method that explains where none is asked for."""
        return default(self.loaded, self.loaded.sees and not reads)

    def require_head(self) -> None:
        """Refuse a model that predicts nothing."""
        if self.loaded.task == "none":
            raise NoHead(
                f"{self.loaded.name!r} is a {type(self.loaded.model).__name__}: it has no head that whence knows, so "
                "there is no prediction to explain. Load a model for a task: ...ForSequenceClassification, "
                "...ForQuestionAnswering, ...ForTokenClassification, ...ForMaskedLM, ...ForCausalLM, "
                "...ForConditionalGeneration, ...ForImageClassification, or CLIPModel."
            )
