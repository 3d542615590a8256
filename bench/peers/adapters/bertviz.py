"""Adapter of bertviz: views of the attention that a model returns, as in its README; it has no scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import transformers
from bench.peers.adapter import Adapter
from bertviz import head_view, model_view


class LibraryAdapter(Adapter):
    """Adapter that renders the views as HTML, of a model that is loaded as the README says."""

    called = (
        "`AutoModel.from_pretrained(name, output_attentions=True)`, "
        '`head_view(model(ids).attentions, tokens, html_action="return")`'
    )

    def _render_view(self, view: Any, text: str) -> Any:
        model = transformers.AutoModel.from_pretrained(
            self.model.config.name_or_path, output_attentions=True
        )
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
        tokens = self.tokenizer.convert_ids_to_tokens(ids[0])
        return view(model(ids).attentions, tokens, html_action="return")

    def list_methods(self, text: str) -> dict[str, Callable[[], Any]]:
        return {
            "head_view": lambda: self._render_view(head_view, text),
            "model_view": lambda: self._render_view(model_view, text),
        }
