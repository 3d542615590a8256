"""Text table that cpu.py and gpu.py print: ratios beside targets, batches, checks of scores, errors."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]


def format_table(rows: Iterable[Row]) -> str:
    """Return the table as text: first the rows with a target, then the others in short."""
    rows = [row for row in rows if "took" not in row]
    return (
        "\n".join(
            [
                *_iterate_ratios(rows),
                "",
                *_iterate_batches(rows),
                "",
                *_iterate_checks(rows),
                "",
                *_iterate_errors(rows),
            ]
        )
        + "\n"
    )


def _iterate_ratios(rows: list[Row]) -> Iterator[str]:
    yield (
        f"{'section':13}{'model':6}{'size':>10} {'what':50}{'ms':>9}{'floor':>9}{'ratio':>6}{'want':>6} {'':5}"
        f"{'GiB':>6}{'ratio':>6}"
    )
    for row in rows:
        if "ratio" not in row or row["what"] == row["against"]:
            continue
        size = f"{row['inputs']}x{row['tokens']}"
        want = row.get("target")
        told = "" if want is None else "ok" if row["ratio"] <= want else "MISS"
        peak, more = row.get("peak"), row.get("peak_ratio")
        memory = f"{peak / 2**30:6.2f}{more:6.2f}" if peak and more else ""
        floor = row["seconds"] / row["ratio"]
        yield (
            f"{row['section']:13}{row['model']:6}{size:>10} {row['what'][:49]:50}{row['seconds'] * 1e3:9.2f}"
            f"{floor * 1e3:9.2f}{row['ratio']:6.2f}{want or '':>6} {told:5}{memory}"
        )


def _iterate_batches(rows: list[Row]) -> Iterator[str]:
    for row in rows:
        if "faster" in row:
            told = "ok" if row["faster"] >= row["at_least"] else "MISS"
            yield (
                f"{row['what']}, {row['dtype']}: {row['faster']:.1f} times as fast as singles "
                f"(want {row['at_least']:g}) {told}; scores differ by {row['off']:.1e}"
            )


def _iterate_checks(rows: list[Row]) -> Iterator[str]:
    """Summarise by section, dtype, kernels and method: the worst over the masks."""
    worst: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if "spearman" in row:
            key = (
                row["section"], row.get("model", ""), row["dtype"], row.get("kernels", ""),
                row.get("against", ""), row["what"],
            )  # fmt: skip
            worst.setdefault(key, []).append(row)
    if worst:
        yield f"{'numbers':78}{'off by':>9}{'Spearman':>9}{'top':>6}"
    for about, found in worst.items():
        off = max(row["off"] for row in found)
        missed = any(row.get("held") is False for row in found)
        yield (
            f"{' '.join(part for part in about if part)[:77]:78}{off:9.1e}"
            f"{min(row['spearman'] for row in found):9.4f}{min(row['top'] for row in found):6.2f}"
            f"{' MISS' if missed else ''}"
        )


def _iterate_errors(rows: list[Row]) -> Iterator[str]:
    for row in rows:
        if "error" in row:
            where = " ".join(
                str(row[key])
                for key in ("model", "inputs", "tokens", "mask", "dtype", "x")
                if key in row
            )
            yield f"! {row['section']} {row['what']} {where}: {row['error']}"
