"""Tables for docs/reference/run.md: throughput of a run beside loops, its memory, a whole set on a GPU."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "bench" / "results"
MISSING = "Not measured yet."

Row = dict[str, Any]


def load_rows(name: str) -> list[Row]:
    """Return the rows of a file of results."""
    file = RESULTS / name
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]


def render_throughput() -> str:
    """Return the table of a run beside loops, one row per attempt: each was on another state of the code."""
    found = [row for row in load_rows("run-cpu.jsonl") if "repeat" in row]
    if not found:
        return MISSING
    first, attempts = found[0], sorted({row["attempt"] for row in found})
    written = [
        f"SST-2's development set, {first['model']}, {first['methods']} methods, {first['metrics']} metrics, "
        f"{first['machine']}, {first['threads']} thread{'s' * (first['threads'] > 1)}. Seconds of the processor for "
        "a sentence, all told; others used the machine at the same time, except in attempt 4. "
        f"{len(attempts)} attempts:\n",
        *(f"- {one}: {next(r['note'] for r in found if r['attempt'] == one)}" for one in attempts),
        "",
        "| way | sentences |" + "".join(f" attempt {one} |" for one in attempts),
        "|---" * (2 + len(attempts)) + "|",
    ]
    for name in dict.fromkeys(row["what"] for row in found):
        own = [row for row in found if row["what"] == name]
        cells = [
            ", ".join(f"{r['busy'] / r['sentences']:.2f}" for r in own if r["attempt"] == one)
            for one in attempts
        ]
        written.append(f"| {name} | {own[0]['sentences']} | {' | '.join(cells)} |")
    return "\n".join(written)


def render_memory() -> str:
    """Return the sentences on the memory of a long run."""
    found = [row for row in load_rows("run-memory.jsonl") if row["what"] == "summary"]
    if not found:
        return MISSING
    row = found[-1]
    slope, low, high = (row[key] / 2**20 for key in ("slope", "slope_low", "slope_high"))
    return (
        f"SST-2's {row['sentences']:,} training sentences, {row['model']}, {row['methods'].replace(',', ' and ')}: "
        f"the process held {row['peak_second_tenth'] / 2**20:,.0f} MiB at most in the second tenth of the run and "
        f"{row['peak_last_tenth'] / 2**20:,.0f} MiB in the last. For a thousand sentences that is {slope:+.2f} MiB "
        f"({low:+.2f} to {high:+.2f}, n {row['points']} windows). A second of the processor explained "
        f"{row['rate_busy_first_half']:.0f} sentences in the first half and {row['rate_busy_second_half']:.0f} in "
        "the second."
    )


def render_whole_set() -> str:
    """Return the table of the whole development set on a GPU, beside loops over some of it."""
    found = [
        row for row in load_rows("run-gpu.jsonl") if row["section"] == "sst2" and "rate" in row
    ]
    if not found:
        return MISSING
    run = found[0]
    written = [
        f"All of it on a GPU: {run['methods']} methods, {run['metrics']} metrics, {run['machine']}, once each. The "
        "first row is a worker of a run, from texts to rows, the model loaded and one task done before.\n",
        "| way | sentences | seconds | sentences a second |",
        "|---" * 4 + "|",
    ]
    for row in found:
        name = "a worker" if row is run else row["what"]
        written.append(f"| {name} | {row['examples']} | {row['seconds']:.0f} | {row['rate']:.2f} |")
    return "\n".join(written)


TABLES = {
    "run throughput": ("reference/run.md", render_throughput),
    "run whole": ("reference/run.md", render_whole_set),
    "run memory": ("reference/run.md", render_memory),
}
