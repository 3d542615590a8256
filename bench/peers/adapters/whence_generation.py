"""whence on the next token of a language model: the same calls as for a class."""

from __future__ import annotations

from typing import Any

from bench.peers.adapter import Absent, Given
from bench.peers.adapters.whence import Own as Classifier
from bench.peers.adapters.whence import given


class Own(Classifier):
    """The token that the model puts next is explained."""

    causal = True
    called = (
        "`whence.load(model, tokenizer=tokenizer).explain(prompts, method=...)`: the next token"
    )

    def _explain(self, texts: Any, method: str, **more: Any) -> list[Given]:
        found = []
        for why in self._explainer.explain(list(texts), method=method, **more):
            one = given(why)
            one.tokens = self.tokenizer.convert_ids_to_tokens([token.id for token in why.tokens])
            found.append(one)
        return found

    def pair(self, first: str, second: str) -> Given:
        raise Absent("a prompt is one text")

    def wrong(self, text: str) -> Any:
        return self._explain([text], "grad_x_input", target="no such token at all")
