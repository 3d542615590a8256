"""Markdown tables of docs/science/peers.md: summary, environments, methods, checks, time, memory, calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.peers.checks import CHECKS, compute_residuals, format_percent, judge_library, select_rows
from bench.peers.environment import PEERS, Peer
from bench.peers.remarks import BEST, CANNOT

Row = dict[str, Any]
Everyone = dict[str, list[Row]]
NONE = "–"
KINDS = {
    "gradient": "one gradient",
    "integrated": "integrated gradients, its own steps",
    "integrated at 64 steps": "integrated gradients, 64 steps",
    "perturbation": "changed texts",
}


def group_by_peer(rows: Sequence[Row]) -> Everyone:
    """Return the rows of each library, in their order."""
    found = {one.name: [row for row in rows if row["peer"] == one.name] for one in PEERS}
    return {name: own for name, own in found.items() if own}


def _get_home_rows(name: str, everyone: Everyone) -> list[Row]:
    one = next(peer for peer in PEERS if peer.name == name)
    return everyone.get(one.home or one.name, everyone[name])


def format_table(head: str, lines: Sequence[str]) -> str:
    """Return a Markdown table."""
    return "\n".join([f"| {head} |", "|---" * (head.count("|") + 1) + "|", *lines])


def escape_cell(text: str) -> str:
    """Return a text that fits into a cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def format_ratio(number: float) -> str:
    """Format a ratio with as many digits as matter."""
    return f"{number:.2f}" if number < 9.995 else f"{number:,.0f}"


def format_install(own: Sequence[Row]) -> str:
    """Return the cell on installation and import."""
    (row,) = select_rows(own, "installs")[:1] or [None]
    if row is None:
        return NONE
    if not row["ok"]:
        return "no"
    loads = select_rows(own, "imports")
    return f"{row['packages']} packages" if loads and loads[0]["ok"] else "yes, but fails to import"


def get_version(own: Sequence[Row], one: Peer) -> str:
    """Return the library's version."""
    for row in select_rows(own, "installs"):
        return str(row.get("versions", {}).get(one.package, ""))
    return ""


def format_runs(own: Sequence[Row]) -> str:
    """Return the cell with the number of methods that ran."""
    asked = select_rows(own, "method")
    return f"{sum(row['ok'] for row in asked)} of {len(asked)} methods" if asked else NONE


def format_checks(own: Sequence[Row]) -> str:
    """Return the cell with the number of checks that hold, and the names of the others."""
    verdicts = judge_library(own)
    asked = {name: one for name, one in verdicts.items() if one.answer != "-"}
    if not asked or not select_rows(own, "completeness"):
        return NONE
    failed = [name for name, one in asked.items() if one.answer == "no"]
    count = f"{len(asked) - len(failed)} of {len(asked)}"
    return f"{count}; not {', '.join(failed)}" if failed else count


def find_time(own: Sequence[Row], kind: str, batch: int) -> Row | None:
    """Return the row of a measured time."""
    found = [r for r in select_rows(own, "time", kind=kind, batch=batch) if "ratio" in r]
    return found[0] if found else None


def _format_time(own: Sequence[Row]) -> str:
    kinds = ("integrated at 64 steps", "perturbation")
    for kind in kinds:
        one, eight = find_time(own, kind, 1), find_time(own, kind, 8)
        if one:
            more = f"; {format_ratio(eight['ratio'])}" if eight else ""
            return f"{format_ratio(one['ratio'])}{more}"
    return NONE


def _format_memory(own: Sequence[Row]) -> str:
    for kind in ("integrated", "perturbation"):
        for row in select_rows(own, "memory", kind=kind):
            if "mebibytes" in row:
                return f"{row['mebibytes']:,.0f} MiB"
    return NONE


def render_summary(everyone: Everyone) -> str:
    """Return the short table."""
    lines = []
    for name, own in everyone.items():
        one = next(peer for peer in PEERS if peer.name == name)
        home = _get_home_rows(name, everyone)
        number = "" if name[-1].isdigit() else f" {get_version(home, one)}"
        cells = [
            f"{name}{number}",
            format_install(home),
            format_runs(own),
            format_checks(own),
            _format_time(own),
            _format_memory(own),
            BEST[name],
        ]
        lines.append(f"| {' | '.join(escape_cell(text) for text in cells)} |")
    return format_table("library | installs | runs | right | time | memory | best at", lines)


def render_environments(everyone: Everyone) -> str:
    """Return the table of the libraries' environments."""
    lines = []
    for name, own in everyone.items():
        one = next(peer for peer in PEERS if peer.name == name)
        for row in [] if one.home else select_rows(own, "installs"):
            asked = f"`pip install {' '.join(row['asked'])}`"
            if not row["ok"]:
                lines.append(f"| {name} | {asked} | no: `{escape_cell(row['error'])}` | | | | |")
                continue
            loads = select_rows(own, "imports")[0]
            load = f"{loads['seconds']:.1f}" if "seconds" in loads else "not yet timed"
            load = load if loads["ok"] else f"no: `{escape_cell(loads['error'])}`"
            size = row["megabytes"]["all"] - row["megabytes"]["torch"]
            versions = row["versions"]
            cells = [
                f"{name} {versions[one.package]}" if not name[-1].isdigit() else name,
                asked, str(row["packages"]), f"{size:,}",
                versions.get("transformers", NONE), versions.get("numpy", NONE), load,
            ]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    head = "library | asked of pip | packages | MiB without torch | transformers | numpy | import, seconds"
    return format_table(head, lines)


def render_methods(everyone: Everyone) -> str:
    """Return the table of methods that ran, and the errors of those that did not."""
    lines = []
    for name, own in everyone.items():
        asked = select_rows(own, "method")
        if not asked:
            continue
        failed = [
            f"{row['method']}: `{escape_cell(row['error'])}`" for row in asked if not row["ok"]
        ]
        measures = [", ".join(row["names"]) for row in select_rows(own, "metrics")]
        ran = [row["method"] for row in asked if row["ok"]]
        said = (
            ", ".join(ran)
            if len(ran) <= 15
            else f"{len(ran)} methods, listed [here](../methods/README.md)"
        )
        lines.append(
            f"| {name} | {format_runs(own)} | {said} | {'<br>'.join(failed) or 'none'} | {(measures or [''])[0] or 'none'} |"
        )
    return format_table(
        "library | ran | which | failed, and its own words | measures of faithfulness", lines
    )


def render_checks(everyone: Everyone) -> str:
    """Return the table of checks by library."""
    lines = []
    for name, own in everyone.items():
        if not select_rows(own, "method"):
            continue
        verdicts = [escape_cell(str(one)) for one in judge_library(own).values()]
        lines.append(f"| {name} | {' | '.join(verdicts)} |")
    return format_table(f"library | {' | '.join(CHECKS)}", lines)


def render_own_steps(everyone: Everyone) -> str:
    """Return the residuals of completeness at each library's own number of steps."""
    lines = []
    for name, own in everyone.items():
        for row in select_rows(own, "completeness", steps="own"):
            if "sums" in row:
                off = sorted(compute_residuals(row))
                middle = off[len(off) // 2]
                lines.append(
                    f"| {name} | {row['of']} | {row['explains']} | {format_percent(middle)} | {format_percent(off[-1])} |"
                )
    return format_table("library | method | of the | residual, middle text | worst text", lines)


def render_wrong_targets(everyone: Everyone) -> str:
    """Return each library's answer to a class that the model does not have."""
    lines = []
    for name, own in everyone.items():
        for row in select_rows(own, "wrong target"):
            said = row.get("error") or row.get("absent") or f"explains it: {row.get('answer')}"
            lines.append(f"| {name} | `{escape_cell(said)}` |")
    return format_table("library | asked for class 99 of 2", lines)


def render_times(everyone: Everyone) -> str:
    """Return the table of times."""
    lines = []
    for kind, said in KINDS.items():
        for name, own in everyone.items():
            one, eight = find_time(own, kind, 1), find_time(own, kind, 8)
            if not one:
                for row in select_rows(own, "time", kind=kind, batch=1):
                    lines.append(
                        f"| {said} | {name} | {row['of']} | `{escape_cell(row['error'])}` | | | |"
                    )
                continue
            together = "" if eight is None or eight["together"] else ", one by one"
            lines.append(
                f"| {said} | {name} | {one['of']} | {format_ratio(one['ratio'])} | {one['rows']:,} "
                f"| {format_ratio(eight['ratio']) + together if eight else NONE} "
                f"| {one['seconds'] * 1e3:,.0f} |"
            )
    head = (
        "kind | library | method | one text | rows through the model | eight texts | one text, ms"
    )
    return format_table(head, lines)


def render_memory(everyone: Everyone) -> str:
    """Return the table of memory peaks."""
    lines = []
    for kind, said in KINDS.items():
        for name, own in everyone.items():
            for row in select_rows(own, "memory", kind=kind):
                if "error" in row:
                    lines.append(
                        f"| {said} | {name} | {row['of']} | `{escape_cell(row['error'])}` | |"
                    )
                    continue
                lines.append(
                    f"| {said} | {name} | {row['of']} | {row['mebibytes']:,.0f} | {row['floor']:,.0f} |"
                )
    return format_table("kind | library | method | MiB | bare pass, MiB", lines)


def render_calls(everyone: Everyone) -> str:
    """Return each library's call, and its features that whence lacks."""
    return format_table(
        "library | called as | what it can that whence cannot",
        [
            f"| {name} | {escape_cell(row['how'])} | {CANNOT.get(name, '')} |"
            for name, own in everyone.items()
            for row in select_rows(own, "called")
        ],
    )
