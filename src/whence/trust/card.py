"""The card itself: a documented JSON object that can be shown, saved and read back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from whence.core.errors import BadParameter, CannotRead
from whence.core.io import read_json, write_text
from whence.report.shown import VERSION, Shown

__all__ = ["VERSION", "Trust"]


@dataclass(frozen=True, eq=False)
class Trust(Shown):
    """How the explanations of one input fared when they were tested."""

    _report: ClassVar[str] = "card"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        return str(self.payload["sentence"])

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each method: holds, weak, fails or not tested."""
        return {one["method"]: one["verdict"] for one in self.payload["methods"]}

    def test(self, name: str, method: str | None = None) -> dict[str, Any]:
        """Return what one test found about a method, by default the first."""
        for one in self.payload["methods"]:
            if method in (None, one["method"]):
                for test in one["tests"]:
                    if test["name"] == name:
                        return dict(test)
        known = sorted({test["name"] for one in self.payload["methods"] for test in one["tests"]})
        raise BadParameter(
            f"There is no test {name!r} of {method or 'any method'}. There are {', '.join(known)}; the methods are "
            f"{', '.join(self.verdicts)}."
        )

    def save(self, path: str | Path) -> Path:
        """Write the card as JSON."""
        return write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "Trust":
        """Read what `save` wrote."""
        payload = read_json(path, "trust card")
        if not isinstance(payload, dict) or not isinstance(payload.get("methods"), list):
            raise CannotRead(f"{str(path)!r} is not a trust card. Give a file that save() wrote.")
        if payload.get("version") != VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the card; this whence reads {VERSION}."
            )
        return cls(payload)

    def __repr__(self) -> str:
        return f"<Trust {', '.join(f'{name}: {said}' for name, said in self.verdicts.items())}>"
