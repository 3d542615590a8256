"""How much it matters in which way tokens are removed."""

from collections.abc import Sequence

from whence.evaluation.evaluation import Evaluation


def removal_matters(tables: Sequence[Evaluation]) -> str:
    """Say, by each metric of faithfulness, which method is best under which removal, and whose mean moves most."""
    ways = [str(table.payload["setting"]["remove"]) for table in tables]
    if len(tables) < 2:
        return f"There is only one way to remove tokens here: {ways[0]}."
    kinds = {one["metric"]: one["kind"] for one in tables[0].payload["metrics"]}
    lines = [
        line
        for metric, kind in kinds.items()
        if kind == "faithfulness" and (line := _line(tables, ways, metric))
    ]
    return " ".join(lines) or "No metric could be tested under several removals."


def _line(tables: Sequence[Evaluation], ways: Sequence[str], metric: str) -> str:
    means = {
        way: {c.method: c.value.mean for c in table.cells if c.metric == metric and c.value}
        for way, table in zip(ways, tables, strict=True)
    }
    means = {way: found for way, found in means.items() if found}
    shared = [m for m in tables[0].methods if all(m in found for found in means.values())]
    if len(means) < 2 or not shared:
        return ""
    moves = {m: [(means[way][m], way) for way in means] for m in shared}
    name = max(shared, key=lambda m: max(moves[m])[0] - min(moves[m])[0])
    (low, low_way), (high, high_way) = min(moves[name]), max(moves[name])
    said = f"By {metric}, {name} moves most: {low:.3g} with {low_way}, {high:.3g} with {high_way}"
    if len(shared) == 1:
        return f"{said}."
    facts = next(o for o in tables[0].payload["metrics"] if o["metric"] == metric)
    sign = 1 if facts["direction"] == "higher" else -1
    best: dict[str, list[str]] = {}
    for way, found in means.items():
        best.setdefault(max(shared, key=lambda m: sign * found[m]), []).append(way)
    if len(best) == 1:
        return f"{said}; {next(iter(best))} is the best whatever the removal."
    who = ", ".join(f"{method} with {' and '.join(own)}" for method, own in best.items())
    return f"{said}; the best is {who}."
