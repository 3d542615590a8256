"""Tables and drawings of docs/reference/speed.md, rendered from the stored rows; `make docs` inserts them.

A number on the page is one of bench/results/speed-gpu.jsonl or speed-cpu.jsonl. What is not there says so.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.speed.cells import (
    MISSING,
    Row,
    find_row,
    format_code,
    format_gibibytes,
    format_memory_ratio,
    format_milliseconds,
    format_reason,
    format_slope,
    format_worst,
    group_rows,
)  # fmt: skip
from bench.speed.growth import AXES, LINES, collect_lines, render_drawing

RESULTS = Path(__file__).resolve().parents[1] / "results"
BARE = "bare forward + backward"
SHAPES = {"bert": "BERT-base", "llama": "Llama"}

_BESIDE = (
    "generic_attention, tiled", "generic_attention, checkpoint", "explain: from lists of ids to Explanation objects",
)  # fmt: skip
_ORIGIN = ("day", "machine", "torch", "transformers", "triton", "whence", "source")
_KEY = (
    "section", "what", "model", "dtype", "inputs", "tokens", "mask", "kernels", "against", "moves", "x",
)  # fmt: skip


def load_rows(name: str) -> list[Row]:
    """Return the rows of a file; of several with the same key, the last."""
    file = RESULTS / f"speed-{name}.jsonl"
    if not file.is_file():
        return []
    latest: dict[tuple[Any, ...], Row] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        latest[tuple(str(row.get(key)) for key in _KEY)] = row
    return list(latest.values())


def render_targets() -> str:
    """Return the table of targets on the GPU."""
    rows = load_rows("gpu")
    sizes = {"bert": ((1, 128), (64, 128), (32, 512)), "llama": ((1, 2048), (1, 8192), (1, 32768))}
    written = [
        "| what | shape | inputs x tokens | against | ms | times | wanted | peak memory, times |",
        "|---" * 8 + "|",
    ]
    for kind, own in sizes.items():
        for size in own:
            written.append(_format_target(rows, kind, "generic_attention", kind, size))
    for kind, own in sizes.items():
        for size in own:
            written.append(_format_target(rows, "relevance", "transformer_attribution", kind, size))
    for kind, size in (("bert", (32, 512)), ("llama", (1, 2048))):
        for one in ("generic_attention", "transformer_attribution"):
            written.append(
                _format_target(rows, "together", f"ten readers, {one} among them", kind, size)
            )
    return "\n".join(written)


def _format_target(
    rows: Sequence[Row], section: str, what: str, kind: str, size: tuple[int, int]
) -> str:
    row = find_row(rows, section, what, kind, size)
    start = f"| {format_code(what)} | {SHAPES[kind]} | {size[0]} x {size[1]:,} "
    if row is None or "ratio" not in row:
        return f"{start}| | {format_reason(row)} | | | |"
    wanted = row["target"]
    reached = "" if row["ratio"] <= wanted else ", missed"
    memory = format_memory_ratio(find_row(rows, section, f"{what}, memory", kind, size) or row)
    taken = f"{format_code(row['against'])} | {format_milliseconds(row)} | {row['ratio']:.2f}"
    return f"{start}| {taken} | ≤ {wanted:g}{reached} | {memory} |"


def render_cpu() -> str:
    """Return the table of targets on a CPU."""
    rows = [row for row in load_rows("cpu") if row.get("target") is not None and "ratio" in row]
    if not rows:
        return f"On a CPU: {MISSING}."
    written = ["| what | inputs x tokens | against | times | wanted |", "|---" * 5 + "|"]
    for row in rows:
        reached = "" if row["ratio"] <= row["target"] else ", missed"
        inputs = row.get("inputs", row.get("batch"))
        written.append(
            f"| {format_code(row['what'])} | {inputs} x {row['tokens']:,} | {format_code(row.get('against', BARE))} "
            f"| {row['ratio']:.2f} | ≤ {row['target']:g}{reached} |"
        )
    return "\n".join(written)


def render_device() -> str:
    """Return the table of device time alone, and the overhead of an explanation."""
    if not (own := [row for row in load_rows("gpu") if row["section"] == "device"]):
        return MISSING
    sizes = list(dict.fromkeys((row["inputs"], row["tokens"]) for row in own))
    cells = {(row["what"], row["inputs"], row["tokens"]): row for row in own}
    added = [cells["generic_attention", *size]["ratio"] * 100 - 100 for size in sizes]
    written = [
        f"`generic_attention` adds {min(added):.0f} to {max(added):.0f} in 100 there (rows of the section `device`: "
        f"{own[0]['how']}, n {own[0]['n']}).\n",
        f"| on the device, ms | {' | '.join(f'{inputs} x {tokens}' for inputs, tokens in sizes)} |",
        "|---" * (1 + len(sizes)) + "|",
    ]
    for what in dict.fromkeys(row["what"] for row in own):
        times = " | ".join(f"{1e3 * cells[what, *size]['seconds']:.3g}" for size in sizes)
        written.append(f"| {format_code(what)} | {times} |")
    return "\n".join(written)


def render_maps() -> str:
    """Return the table of materialised maps, and of the same scores without them."""
    rows = load_rows("gpu")
    written = [
        "| shape | inputs x tokens | maps written out | here | maps: peak | here: peak | ranks agree (Spearman) |",
        "|---" * 7 + "|",
    ]
    for kind, size in (
        ("bert", (32, 512)),
        ("llama", (1, 2048)),
        ("llama", (1, 4096)),
        ("llama", (1, 8192)),
    ):
        theirs = find_row(rows, "materialised", "maps written out", kind, size)
        ours = find_row(rows, "materialised", "generic_attention", kind, size)
        same = find_row(rows, "materialised", "maps written out, the same scores", kind, size)
        cells = [
            format_milliseconds(theirs), format_milliseconds(ours), format_gibibytes(theirs), format_gibibytes(ours),
            f"{same['spearman']:.4f}" if same and "spearman" in same else "",
        ]  # fmt: skip
        written.append(f"| {SHAPES[kind]} | {size[0]} x {size[1]:,} | {' | '.join(cells)} |")
    return "\n".join(written)


def render_others() -> str:
    """Return the table of other measurements: batches, query methods, tiles, whole explanations."""
    rows = load_rows("gpu")
    head = "| what | shape | inputs x tokens | ms | against | times | peak memory, times |"
    written = [head, "|---" * 7 + "|"]
    shown = [
        row for row in rows
        if (row["section"] == "askers" and row["what"] in ("leave_one_out", "integrated_gradients"))
        or row["what"] in _BESIDE
    ]  # fmt: skip
    for row in shown:
        start = f"| {format_code(row['what'])} | {SHAPES[row['model']]} | {row['inputs']} x {row['tokens']:,} "
        told = (
            f"| {format_milliseconds(row)} | {format_code(row.get('against', ''))} | {row['ratio']:.2f} | {format_memory_ratio(row)} |"
            if "ratio" in row
            else f"| {format_reason(row)} | | | |"
        )
        written.append(start + told)
    for row in rows:
        if "faster" in row:
            missed = "" if row["faster"] >= row["at_least"] else ", missed"
            written.append(
                f"| `generic_attention` of {row['what']}, {row['dtype']} | BERT-base "
                f"| {row['inputs']} x {row['tokens']} | {row['seconds'] * 1e3:.1f} "
                f"| one after another, {row['apart'] * 1e3:.0f} ms | faster by {row['faster']:.1f} "
                f"(wanted: {row['at_least']:g}{missed}); scores differ by {row['off']:.0e} | |"
            )
    return "\n".join(written) if len(written) > 2 else f"On a GPU: {MISSING}."


def render_numbers() -> str:
    """Return the table of scores on the GPU against those of the CPU in float64."""
    rows = [row for row in load_rows("gpu") if row["section"] == "check" and "spearman" in row]
    if not rows:
        return f"Scores on a GPU against the CPU: {MISSING}."
    masks = sorted({row["mask"] for row in rows})
    written = [
        f"The worst of {len(masks)} kinds of masks ({'; '.join(masks)}), two inputs each. *Off*: the largest "
        "difference as a part of the largest score, the token whose row is read left out.\n",
        "| method | dtype | kernels | off | Spearman | top 10 |", "|---" * 6 + "|",
    ]  # fmt: skip
    for key, found in group_rows(rows, ("what", "dtype", "kernels", "against")).items():
        if key[3] != "tiled":
            written.append(f"| `{key[0]}` | {key[1]} | {key[2]} | {format_worst(found)} |")
    return "\n".join(written)


def render_precision() -> str:
    """Return the table of ranks in half precision against float32."""
    rows = [row for row in load_rows("gpu") if row["section"] == "precision" and "spearman" in row]
    if not rows:
        return f"Ranks in half precision against float32, on a GPU: {MISSING}."
    chance = max(row["top_by_chance"] for row in rows)
    written = [
        "The worst of the inputs. Random rankings have a Spearman of 0, and share "
        f"{chance:.2f} of their top 10, or less.\n",
        "| method | shape | dtype | inputs | off | Spearman | top 10 |", "|---" * 7 + "|",
    ]  # fmt: skip
    for key, found in group_rows(rows, ("what", "model", "dtype", "inputs")).items():
        written.append(
            f"| {format_code(key[0])} | {SHAPES[key[1]]} | {key[2]} | {key[3]} | {format_worst(found)} |"
        )
    return "\n".join(written)


def render_growth() -> str:
    """Return the table of slopes."""
    written = [
        "| where | what grows | "
        + " | ".join(f"{format_code(name)}: time, memory" for name in LINES)
        + " |",
        "|---" * 5 + "|",
    ]
    for name, where in (("gpu", "GPU"), ("cpu", "CPU")):
        rows = load_rows(name)
        for moves, axis in AXES.items():
            found = [collect_lines(rows, moves, value) for value in ("seconds", "peak")]
            if not found[0]:
                continue
            cells = [
                ", ".join(format_slope(part.get(one, [])) for part in found if part)
                for one in LINES
            ]
            span = [x for points in found[0].values() for x, _ in points]
            written.append(
                f"| {where} | {axis}, {min(span):,g} to {max(span):,g} | {' | '.join(cells)} |"
            )
    if len(written) == 2:
        return f"Growth: {MISSING}."
    drawn = [
        f"![{alt}]({name})"
        for name, alt in _PICTURES.items()
        if DRAWINGS[f"reference/{name}"]() is not None
    ]
    return "\n".join([*written, "", *drawn])


def render_origin() -> str:
    """Return the sentence on device, versions and date."""
    told = []
    for name in ("gpu", "cpu"):
        runs = {
            tuple(row.get(key, "") for key in _ORIGIN)
            for row in load_rows(name) if "machine" in row
        }  # fmt: skip
        for day, machine, torch, transformers, triton, version, source in sorted(runs):
            own = f", Triton {triton}" if triton not in ("", "none") else ""
            on = f"{day}, {machine}" if day else machine
            from_source = f" (source {source})" if source else ""
            told.append(
                f"`bench/results/speed-{name}.jsonl`: {on}; whence {version}{from_source}, torch {torch}, "
                f"transformers {transformers}{own}."
            )
        if not runs:
            told.append(f"`bench/results/speed-{name}.jsonl`: {MISSING}.")
    return "\n".join(f"- {line}" for line in told)


def render_growth_drawing(name: str, value: str, title: str, unit: str) -> str | None:
    """Return a drawing of growth; None without rows."""
    rows = [row for row in load_rows(name) if "moves" in row]
    return render_drawing([_convert_to_gibibytes(row) for row in rows], value, title, unit)


def _convert_to_gibibytes(row: Row) -> Row:
    return {**row, "peak": row["peak"] / 2**30} if row.get("peak") else row


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "speed targets": ("reference/speed.md", render_targets),
    "speed on a CPU": ("reference/speed.md", render_cpu),
    "speed device": ("reference/speed.md", render_device),
    "speed maps": ("reference/speed.md", render_maps),
    "speed others": ("reference/speed.md", render_others),
    "speed numbers": ("reference/speed.md", render_numbers),
    "speed precision": ("reference/speed.md", render_precision),
    "speed growth": ("reference/speed.md", render_growth),
    "speed origin": ("reference/speed.md", render_origin),
}
DRAWINGS: dict[str, Callable[[], str | None]] = {
    "reference/speed-time.svg": partial(
        render_growth_drawing, "gpu", "seconds", "Time on a GPU, bfloat16", "seconds"
    ),
    "reference/speed-memory.svg": partial(
        render_growth_drawing,
        "gpu",
        "peak",
        "Peak memory on a GPU, weights included, bfloat16",
        "GiB",
    ),
    "reference/speed-cpu.svg": partial(
        render_growth_drawing, "cpu", "seconds", "Time on a CPU, one thread, float32", "seconds"
    ),
}


_PICTURES = {
    "speed-time.svg": "Time on a GPU, growing with length, layers, heads and batch",
    "speed-memory.svg": "Peak memory on a GPU, growing with length, layers, heads and batch",
    "speed-cpu.svg": "Time on a CPU, growing with length, layers, heads and batch",
}
