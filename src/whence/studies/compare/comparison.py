"""The `Comparison` result: heads, layers, flow, words and predictions of two models, with intervals."""

from collections.abc import Mapping
from typing import Any, ClassVar

from whence.core.errors import BadParameter
from whence.render.document import SavedResult


class Comparison(SavedResult):
    """The result of a comparison of two models over a data set: heads, flow, words and predictions."""

    _writers: ClassVar[Mapping[str, str]] = {
        "page": "whence.studies.compare.report:render_comparison_html",
        "fragment": "whence.studies.compare.report:render_comparison_fragment",
        "text": "whence.studies.compare.report:format_comparison_text",
        "terminal": "whence.studies.compare.report:render_comparison_terminal",
    }
    _kind: ClassVar[str] = "comparison"

    @property
    def sentence(self) -> str:
        """The result in a few sentences."""
        return str(self.payload["sentence"])

    @property
    def heads(self) -> list[dict[str, Any]]:
        """Every head: divergence from its twin, attention to special tokens and entropy, with intervals."""
        return [dict(head) for head in self.payload["heads"]]

    @property
    def layers(self) -> list[dict[str, Any]]:
        """Every layer, with the overlap of its flow."""
        return [dict(layer) for layer in self.payload["layers"]]

    @property
    def changed_heads(self) -> list[tuple[int, int]]:
        """The heads that changed most, as (layer, head), the most changed first."""
        return [(head["layer"], head["head"]) for head in self.payload["changed"]["heads"]]

    def head(self, layer: int, head: int) -> dict[str, Any]:
        """Return the figures of one head."""
        for row in self.payload["heads"]:
            if (row["layer"], row["head"]) == (layer, head):
                return dict(row)
        setting = self.payload["setting"]
        raise BadParameter(
            f"There is no head {layer}.{head}: the models have {setting['layers']} layers of {setting['heads']} "
            "heads, counted from 0."
        )

    def __repr__(self) -> str:
        first, second = self.payload["a"]["name"], self.payload["b"]["name"]
        return f"<Comparison {first} and {second} on {self.payload['data']['used']} inputs>"
