"""The table of edge weights for docs/reference/flow.md, made from their cards."""

from __future__ import annotations

from whence.flow import CARDS


def markdown() -> str:
    """Return a row for each edge weight."""
    lines = [
        "| weight | what an edge weighs | share of the skip connection | shares equal | cost |",
        "|---|---|---|---|---|",
    ]
    for name, card in CARDS.items():
        cells = (f"`{name}`", f"`{card.formula}`", card.skip, card.equals, card.cost)
        lines.append(f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |")
    lines += ["", "What misleads:", ""]
    lines += [f"- `{name}` ({card.cite}): {card.misleads_when}." for name, card in CARDS.items()]
    return "\n".join(lines)
