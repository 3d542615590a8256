"""Table for docs/reference/precision.md: ranks in half precision against float32, from stored rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "bench" / "results" / "precision.jsonl"
DTYPES = ("float16", "bfloat16")


def render_table() -> str:
    """Return the agreement of ranks in half precision with float32, method by method."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    # Of several rows about the same thing, the last.
    rows = {
        (row["model"], row["method"], row["dtype"]): row
        for row in map(json.loads, lines)
        if row.get("against") == "float32" and "spearman" in row
    }
    methods = sorted({method for model, method, _ in rows if model == "minilm-sst2"})
    written = [
        f"| method | {' | '.join(f'{dtype} | lowest' for dtype in DTYPES)} |",
        "|---" * 5 + "|",
    ]
    for method in methods:
        cells = [_format_cells(rows.get(("minilm-sst2", method, dtype))) for dtype in DTYPES]
        written.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join([*written, "", _format_stories(rows)])


def _format_stories(rows: dict[tuple[str, str, str], dict[str, Any]]) -> str:
    """Return a sentence on the language model: all methods but the two worst, and these."""
    means = {
        dtype: {m: row["spearman"][0] for (model, m, d), row in rows.items() if (model, d) == ("stories260K", dtype)}
        for dtype in DTYPES
    }  # fmt: skip
    first = means[DTYPES[0]]
    worst = sorted(first, key=lambda method: min(own[method] for own in means.values()))[:2]
    others = [
        f"{min(v for m, v in own.items() if m not in worst):.4f} in {d}" for d, own in means.items()
    ]
    told = [f"`{m}` {' and '.join(f'{own[m]:.4f}' for own in means.values())}" for m in worst]
    n = next(row["n"] for (model, *_), row in rows.items() if model == "stories260K")
    return (
        f"On `stories260K`, a language model of 5 layers ({n} sentences), means are at least {' and '.join(others)}, "
        f"but for {' and '.join(told)}."
    )


def _format_cells(row: dict[str, Any] | None) -> str:
    if row is None:
        return "– | –"
    mean, low, high = row["spearman"]
    # As many digits as the interval is narrow.
    digits = 2 if high - low > 0.1 else 3 if high - low > 0.004 else 4
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}] | {row['worst_spearman']:.3f}"
