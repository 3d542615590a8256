"""The `Comparison` result: heads, layers, flow, words and predictions of two models, with intervals."""

from typing import Any, ClassVar

from whence.core.errors import BadParameter
from whence.core.result import Result
from whence.render.document import Document


class Comparison(Result):
    """The result of a comparison of two models over a data set: heads, flow, words and predictions."""

    kind: ClassVar[str] = "comparison"

    def document(self) -> Document:
        """Return the blocks that every surface shows."""
        from whence.studies.compare.report import build_document

        return build_document(self.data)

    @property
    def sentence(self) -> str:
        """The result in a few sentences."""
        return str(self.data["sentence"])

    @property
    def heads(self) -> list[dict[str, Any]]:
        """Every head: divergence from its twin, attention to special tokens and entropy, with intervals."""
        return [dict(head) for head in self.data["heads"]]

    @property
    def layers(self) -> list[dict[str, Any]]:
        """Every layer, with the overlap of its flow."""
        return [dict(layer) for layer in self.data["layers"]]

    @property
    def changed_heads(self) -> list[tuple[int, int]]:
        """The heads that changed most, as (layer, head), the most changed first."""
        return [(head["layer"], head["head"]) for head in self.data["changed"]["heads"]]

    def head(self, layer: int, head: int) -> dict[str, Any]:
        """Return the figures of one head."""
        for row in self.data["heads"]:
            if (row["layer"], row["head"]) == (layer, head):
                return dict(row)
        setting = self.data["setting"]
        raise BadParameter(
            f"There is no head {layer}.{head}: the models have {setting['layers']} layers of {setting['heads']} "
            "heads, counted from 0."
        )

    def __repr__(self) -> str:
        first, second = self.data["a"]["name"], self.data["b"]["name"]
        return f"<Comparison {first} and {second} on {self.data['data']['used']} inputs>"
