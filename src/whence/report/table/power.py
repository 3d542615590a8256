"""Whether there are examples enough for any difference to show."""

from collections.abc import Mapping
from typing import Any


def power(payload: Mapping[str, Any]) -> list[str]:
    """Say where there are so few examples that no difference could have shown."""
    found: dict[str, list[str]] = {}
    alone: list[str] = []
    judged = [one for one in payload["metrics"] if one.get("needed")]
    for metric in judged:
        cells = [c for c in payload["cells"] if c["metric"] == metric["metric"] and c["n"]]
        few = [cell for cell in cells if not cell.get("enough", True)]
        if few and len(few) == len(cells):
            n = max(cell["n"] for cell in cells)
            found.setdefault(too_few(n, len(cells), metric["needed"]), []).append(metric["metric"])
            continue
        alone += [
            f"{metric['metric']}: {cell['method']} has too few examples, n={cell['n']}, to be told from random "
            "explanations."
            for cell in few
        ]
    said = [
        line if len(names) == len(judged) else f"{', '.join(names)}: {line}"
        for line, names in found.items()
    ]
    return [*said, *alone]


def too_few(n: int, methods: int, needed: int) -> str:
    """Say that so many examples cannot show any difference, and how many can."""
    examples = "n=1 example is" if n == 1 else f"n={n} examples are"
    compared = "1 method" if methods == 1 else f"{methods} methods"
    return f"{examples} too few: with {compared} compared, differences can only show from n={needed} on."
