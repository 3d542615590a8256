"""Measured tables of docs/guides/cluster.md: bytes on the network, and the cost of a million documents."""

import json
from math import ceil
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "bench" / "results"
MISSING = "Not measured yet."
DOCUMENTS = 1_000_000
GPUS = (1, 8, 64)

Row = dict[str, Any]


def load_rows(name: str, section: str, *key: str) -> dict[tuple[Any, ...], Row]:
    """Return the rows of a file's section, keyed by some of their values; the last row of a key wins."""
    file = RESULTS / name
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    found = [json.loads(line) for line in lines]
    return {
        tuple(row.get(one) for one in key): row for row in found if row.get("section") == section
    }


def load_wire_rows() -> dict[tuple[Any, ...], Row]:
    """Return the rows on network traffic, by kind of work and length."""
    return load_rows("run-wire.jsonl", "wire", "what", "tokens")


def render_sizes() -> str:
    """Return the table of bytes and of the driver's seconds."""
    written = [
        "| work | tokens | to the actor, bytes | back, bytes | driver, ms | documents/s of a driver | store, bytes |",
        "|---" * 7 + "|",
    ]
    for (what, tokens), row in load_wire_rows().items():
        written.append(
            f"| {what} | {tokens} | {row['sent']:,.0f} | {row['received']:,.0f} | {1000 * row['driver']:.2f} "
            f"| {1 / row['driver']:,.0f} | {row['stored']:,.0f} |"
        )
    if not load_wire_rows():
        return MISSING
    most = max((row["sent"] + row["received"]) / row["driver"] for row in load_wire_rows().values())
    told = f"At the rate that a driver can take, no row is more than {most / 1e6:.0f} MB a second on the network."
    return "\n".join([*written, "", told])


def render_cost() -> str:
    """Return the table of the hours that a million documents take on some GPUs."""
    driver = load_wire_rows()
    shared = load_rows("run-gpu.jsonl", "sharing", "what", "tokens", "workers")
    most = max((workers for _, _, workers in shared), default=1)
    written = [
        "| work | tokens | actors on a GPU | documents/s of a GPU | GPU hours "
        + "".join(f"| {count} GPU{'s' * (count > 1)}, hours " for count in GPUS)
        + f"| runs that feed {GPUS[-1]} |",
        "|---" * (6 + len(GPUS)) + "|",
    ]
    for (what, tokens, workers), row in shared.items():
        name = what.partition(", workers")[0]
        if workers not in (1, most) or (name, tokens) not in driver:
            continue
        seconds = driver[name, tokens]["driver"]
        times = [_format_hours(row["rate"] * count, seconds) for count in GPUS]
        runs = ceil(row["rate"] * GPUS[-1] * seconds)
        used = DOCUMENTS / row["rate"] / 3600
        written.append(
            f"| {name} | {tokens} | {workers} | {row['rate']:,.0f} | {_format_short(used)} | {' | '.join(times)} | {runs} |"
        )
    return "\n".join(written) if driver and shared else MISSING


def _format_hours(rate: float, driver: float) -> str:
    """Return the hours of a million documents; in bold where the driver is slower than the actors."""
    actors, alone = DOCUMENTS / rate / 3600, DOCUMENTS * driver / 3600
    return _format_short(actors) if actors >= alone else f"**{_format_short(alone)}**"


def _format_short(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.2g}"


TABLES = {
    "run bytes": ("guides/cluster.md", render_sizes),
    "run cost": ("guides/cluster.md", render_cost),
}
