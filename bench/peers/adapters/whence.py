"""Adapter of whence: `whence.load(...).explain(...)` by all methods, on lists, pairs and a wrong target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bench.peers.adapter import Adapter, TokenScores

import whence


def convert_explanation(why: Any) -> TokenScores:
    """Return an explanation's tokens and scores."""
    segments = [token.segment for token in why.tokens]
    return TokenScores(
        [token.text for token in why.tokens], [float(s) for s in why.scores], segments
    )


class LibraryAdapter(Adapter):
    """Adapter that passes any list in one call."""

    takes_lists = True
    baseline = "padding"
    called = "`whence.load(model, tokenizer=tokenizer).explain(texts, method=..., target=...)`"
    names = {
        "gradient": "grad_x_input",
        "integrated": "integrated_gradients",
        "perturbation": "leave_one_out",
    }

    def __init__(self, model: Any, tokenizer: Any, target: int) -> None:
        super().__init__(model, tokenizer, target)
        self._explainer = whence.load(model, tokenizer=tokenizer)

    def _explain(self, texts: Any, method: str, **more: Any) -> list[TokenScores]:
        whys = self._explainer.explain(
            list(texts), **({"method": method, "target": self.target} | more)
        )
        return [convert_explanation(why) for why in whys]

    def list_methods(self, text: str) -> dict[str, Callable[[], Any]]:
        from whence.methods import method

        return {name: partial(self._explain, [text], name) for name in method.names()}

    def explain_by_gradient(self, texts: Sequence[str]) -> list[TokenScores]:
        return self._explain(texts, "grad_x_input")

    def integrate_gradients(
        self, texts: Sequence[str], steps: int | None = None
    ) -> list[TokenScores]:
        params = {} if steps is None else {"params": {"steps": steps}}
        return self._explain(texts, "integrated_gradients", **params)

    def explain_by_perturbation(self, texts: Sequence[str]) -> list[TokenScores]:
        return self._explain(texts, "leave_one_out")

    def explain_pair(self, first: str, second: str) -> TokenScores:
        return self._explain([(first, second)], "integrated_gradients")[0]

    def explain_wrong_target(self, text: str) -> Any:
        return self._explain([text], "grad_x_input", target=99)

    def list_metrics(self) -> list[str]:
        from whence.metrics import metric

        return [entry.name for entry in metric if entry.facts["kind"] == "faithfulness"]
