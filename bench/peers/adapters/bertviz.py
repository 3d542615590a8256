"""bertviz: views of the attention that a model returns, as in its README. It has no scores to check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.peers.adapter import Adapter
from bertviz import head_view, model_view


class Own(Adapter):
    """The views are made as HTML; the attention comes from the model."""

    called = '`head_view(model(ids, output_attentions=True)[-1], tokens, html_action="return")`'

    def _view(self, view: Any, text: str, eager: bool) -> Any:
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
        old = self.model.config._attn_implementation
        if eager:
            self.model.set_attn_implementation("eager")
        try:
            attention = self.model(ids, output_attentions=True)[-1]
        finally:
            if eager:
                self.model.set_attn_implementation(old)
        tokens = self.tokenizer.convert_ids_to_tokens(ids[0])
        return view(attention, tokens, html_action="return")

    def methods(self, text: str) -> dict[str, Callable[[], Any]]:
        return {
            "head_view": lambda: self._view(head_view, text, False),
            "model_view": lambda: self._view(model_view, text, False),
            "head_view, model switched to eager attention": lambda: self._view(
                head_view, text, True
            ),
            "model_view, model switched to eager attention": lambda: self._view(
                model_view, text, True
            ),
        }
