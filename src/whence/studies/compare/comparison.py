"""What a comparison returns: a documented JSON object that can be shown, saved and read back."""

from dataclasses import dataclass
from typing import Any, ClassVar

from whence.core.errors import BadParameter
from whence.report.shown import VERSION, Stored

__all__ = ["VERSION", "Comparison"]


@dataclass(frozen=True, eq=False)
class Comparison(Stored):
    """How far two models are apart over a data set: their heads, their flows, what they lean on and predict."""

    _report: ClassVar[str] = "comparison"
    _kind: ClassVar[str] = "comparison"

    @property
    def sentence(self) -> str:
        """The result in a few sentences."""
        return str(self.payload["sentence"])

    @property
    def heads(self) -> list[dict[str, Any]]:
        """Every head: divergence from its twin, attention to special tokens and entropy, with intervals."""
        return [dict(one) for one in self.payload["heads"]]

    @property
    def layers(self) -> list[dict[str, Any]]:
        """Every layer, with the overlap of its flow."""
        return [dict(one) for one in self.payload["layers"]]

    @property
    def changed(self) -> list[tuple[int, int]]:
        """The heads that changed most, as (layer, head), the most changed first."""
        return [(one["layer"], one["head"]) for one in self.payload["changed"]["heads"]]

    def head(self, layer: int, head: int) -> dict[str, Any]:
        """Return what was found of one head."""
        for one in self.payload["heads"]:
            if (one["layer"], one["head"]) == (layer, head):
                return dict(one)
        setting = self.payload["setting"]
        raise BadParameter(
            f"There is no head {layer}.{head}: the models have {setting['layers']} layers of {setting['heads']} "
            "heads, counted from 0."
        )

    def __repr__(self) -> str:
        one, other = self.payload["a"]["name"], self.payload["b"]["name"]
        return f"<Comparison {one} and {other} on {self.payload['data']['used']} inputs>"
