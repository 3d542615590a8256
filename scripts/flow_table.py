"""Table of edge weights for docs/reference/flow.md, from their cards."""

from __future__ import annotations

from whence.flow.weights import EDGE_WEIGHT_CARDS


def render_table() -> str:
    """Return a row for each edge weight."""
    lines = [
        "| weight | what an edge weighs | share of the skip connection | shares equal | cost |",
        "|---|---|---|---|---|",
    ]
    for name, card in EDGE_WEIGHT_CARDS.items():
        cells = (f"`{name}`", f"`{card.formula}`", card.skip, card.equals, card.cost)
        lines.append(f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |")
    lines += ["", "What misleads:", ""]
    lines += [
        f"- `{name}` ({card.cite}): {card.misleads_when}."
        for name, card in EDGE_WEIGHT_CARDS.items()
    ]
    return "\n".join(lines)
