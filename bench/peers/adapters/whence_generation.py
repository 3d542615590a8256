"""Adapter of whence on the next token of a language model: the same calls as for a class."""

from __future__ import annotations

from typing import Any

from bench.peers.adapter import Absent, TokenScores
from bench.peers.adapters.whence import LibraryAdapter as Classifier
from bench.peers.adapters.whence import convert_explanation


class LibraryAdapter(Classifier):
    """Adapter that explains the most likely next token."""

    causal = True
    called = (
        "`whence.load(model, tokenizer=tokenizer).explain(prompts, method=...)`: the next token"
    )

    def _explain(self, texts: Any, method: str, **more: Any) -> list[TokenScores]:
        found = []
        for why in self._explainer.explain(list(texts), method=method, **more):
            one = convert_explanation(why)
            one.tokens = self.tokenizer.convert_ids_to_tokens([token.id for token in why.tokens])
            found.append(one)
        return found

    def explain_pair(self, first: str, second: str) -> TokenScores:
        raise Absent("a prompt is one text")

    def explain_wrong_target(self, text: str) -> Any:
        return self._explain([text], "grad_x_input", target="no such token at all")
