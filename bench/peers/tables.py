"""The tables of docs/science/peers.md, one for each question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.peers.checks import CHECKS, judged, percent, picked, residuals
from bench.peers.environment import PEERS, Peer
from bench.peers.words import BEST, CANNOT

Row = dict[str, Any]
Everyone = dict[str, list[Row]]
NONE = "–"
KINDS = {
    "gradient": "one gradient",
    "integrated": "integrated gradients, its own steps",
    "integrated at 64 steps": "integrated gradients, 64 steps",
    "perturbation": "changed texts",
}


def by_peer(rows: Sequence[Row]) -> Everyone:
    """Return the rows of each library, in their order."""
    found = {one.name: [row for row in rows if row["peer"] == one.name] for one in PEERS}
    return {name: own for name, own in found.items() if own}


def _home(name: str, everyone: Everyone) -> list[Row]:
    one = next(peer for peer in PEERS if peer.name == name)
    return everyone.get(one.home or one.name, everyone[name])


def table(head: str, lines: Sequence[str]) -> str:
    """Return a Markdown table."""
    return "\n".join([f"| {head} |", "|---" * (head.count("|") + 1) + "|", *lines])


def cell(text: str) -> str:
    """Return a text that fits into a cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def times(number: float) -> str:
    """Return a ratio in a reader's digits."""
    return f"{number:.2f}" if number < 9.995 else f"{number:,.0f}"


def installs(own: Sequence[Row]) -> str:
    """Say whether pip could install it, and whether it imports."""
    (row,) = picked(own, "installs")[:1] or [None]
    if row is None:
        return NONE
    if not row["ok"]:
        return "no"
    loads = picked(own, "imports")
    return f"{row['packages']} packages" if loads and loads[0]["ok"] else "yes, but fails to import"


def version(own: Sequence[Row], one: Peer) -> str:
    """Return the library's version."""
    for row in picked(own, "installs"):
        return str(row.get("versions", {}).get(one.package, ""))
    return ""


def runs(own: Sequence[Row]) -> str:
    """Say how many of the methods ran."""
    asked = picked(own, "method")
    return f"{sum(row['ok'] for row in asked)} of {len(asked)} methods" if asked else NONE


def right(own: Sequence[Row]) -> str:
    """Say how many checks hold, and which do not."""
    verdicts = judged(own)
    asked = {name: one for name, one in verdicts.items() if one.answer != "-"}
    if not asked or not picked(own, "completeness"):
        return NONE
    failed = [name for name, one in asked.items() if one.answer == "no"]
    count = f"{len(asked) - len(failed)} of {len(asked)}"
    return f"{count}; not {', '.join(failed)}" if failed else count


def took(own: Sequence[Row], kind: str, batch: int) -> Row | None:
    """Return the row of a measured time."""
    found = [r for r in picked(own, "time", kind=kind, batch=batch) if "ratio" in r]
    return found[0] if found else None


def _short_time(own: Sequence[Row]) -> str:
    kinds = ("integrated at 64 steps", "perturbation")
    for kind in kinds:
        one, eight = took(own, kind, 1), took(own, kind, 8)
        if one:
            more = f"; {times(eight['ratio'])}" if eight else ""
            return f"{times(one['ratio'])}{more}"
    return NONE


def _short_memory(own: Sequence[Row]) -> str:
    for kind in ("integrated", "perturbation"):
        for row in picked(own, "memory", kind=kind):
            if "mebibytes" in row:
                return f"{row['mebibytes']:,.0f} MiB"
    return NONE


def in_short(everyone: Everyone) -> str:
    """Return the short table."""
    lines = []
    for name, own in everyone.items():
        one = next(peer for peer in PEERS if peer.name == name)
        home = _home(name, everyone)
        number = "" if name[-1].isdigit() else f" {version(home, one)}"
        cells = [
            f"{name}{number}",
            installs(home),
            runs(own),
            right(own),
            _short_time(own),
            _short_memory(own),
            BEST[name],
        ]
        lines.append(f"| {' | '.join(cell(text) for text in cells)} |")
    return table("library | installs | runs | right | time | memory | best at", lines)


def environments(everyone: Everyone) -> str:
    """Return what pip made of each library."""
    lines = []
    for name, own in everyone.items():
        one = next(peer for peer in PEERS if peer.name == name)
        for row in [] if one.home else picked(own, "installs"):
            asked = f"`pip install {' '.join(row['asked'])}`"
            if not row["ok"]:
                lines.append(f"| {name} | {asked} | no: `{cell(row['error'])}` | | | | |")
                continue
            loads = picked(own, "imports")[0]
            load = f"{loads['seconds']:.1f}" if "seconds" in loads else "not yet timed"
            load = load if loads["ok"] else f"no: `{cell(loads['error'])}`"
            size = row["megabytes"]["all"] - row["megabytes"]["torch"]
            versions = row["versions"]
            cells = [
                f"{name} {versions[one.package]}" if not name[-1].isdigit() else name,
                asked, str(row["packages"]), f"{size:,}",
                versions.get("transformers", NONE), versions.get("numpy", NONE), load,
            ]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    head = "library | asked of pip | packages | MiB without torch | transformers | numpy | import, seconds"
    return table(head, lines)


def all_methods(everyone: Everyone) -> str:
    """Return which methods ran, and the errors of those that did not."""
    lines = []
    for name, own in everyone.items():
        asked = picked(own, "method")
        if not asked:
            continue
        failed = [f"{row['method']}: `{cell(row['error'])}`" for row in asked if not row["ok"]]
        measures = [", ".join(row["names"]) for row in picked(own, "metrics")]
        ran = [row["method"] for row in asked if row["ok"]]
        said = (
            ", ".join(ran)
            if len(ran) <= 15
            else f"{len(ran)} methods, listed [here](../methods/README.md)"
        )
        lines.append(
            f"| {name} | {runs(own)} | {said} | {'<br>'.join(failed) or 'none'} | {(measures or [''])[0] or 'none'} |"
        )
    return table(
        "library | ran | which | failed, and its own words | measures of faithfulness", lines
    )


def all_checks(everyone: Everyone) -> str:
    """Return what every check says of every library."""
    lines = []
    for name, own in everyone.items():
        if not picked(own, "method"):
            continue
        verdicts = [cell(str(one)) for one in judged(own).values()]
        lines.append(f"| {name} | {' | '.join(verdicts)} |")
    return table(f"library | {' | '.join(CHECKS)}", lines)


def own_steps(everyone: Everyone) -> str:
    """Return the residuals of completeness at each library's own number of steps."""
    lines = []
    for name, own in everyone.items():
        for row in picked(own, "completeness", steps="own"):
            if "sums" in row:
                off = sorted(residuals(row))
                middle = off[len(off) // 2]
                lines.append(
                    f"| {name} | {row['of']} | {row['explains']} | {percent(middle)} | {percent(off[-1])} |"
                )
    return table("library | method | of the | residual, middle text | worst text", lines)


def wrong_targets(everyone: Everyone) -> str:
    """Return what each library says to a class that is not there."""
    lines = []
    for name, own in everyone.items():
        for row in picked(own, "wrong target"):
            said = row.get("error") or row.get("absent") or f"explains it: {row.get('answer')}"
            lines.append(f"| {name} | `{cell(said)}` |")
    return table("library | asked for class 99 of 2", lines)


def all_times(everyone: Everyone) -> str:
    """Return what was measured of time."""
    lines = []
    for kind, said in KINDS.items():
        for name, own in everyone.items():
            one, eight = took(own, kind, 1), took(own, kind, 8)
            if not one:
                for row in picked(own, "time", kind=kind, batch=1):
                    lines.append(
                        f"| {said} | {name} | {row['of']} | `{cell(row['error'])}` | | | |"
                    )
                continue
            together = "" if eight is None or eight["together"] else ", one by one"
            lines.append(
                f"| {said} | {name} | {one['of']} | {times(one['ratio'])} | {one['rows']:,} "
                f"| {times(eight['ratio']) + together if eight else NONE} "
                f"| {one['seconds'] * 1e3:,.0f} |"
            )
    head = (
        "kind | library | method | one text | rows through the model | eight texts | one text, ms"
    )
    return table(head, lines)


def all_memory(everyone: Everyone) -> str:
    """Return what was measured of memory."""
    lines = []
    for kind, said in KINDS.items():
        for name, own in everyone.items():
            for row in picked(own, "memory", kind=kind):
                if "error" in row:
                    lines.append(f"| {said} | {name} | {row['of']} | `{cell(row['error'])}` | |")
                    continue
                lines.append(
                    f"| {said} | {name} | {row['of']} | {row['mebibytes']:,.0f} | {row['floor']:,.0f} |"
                )
    return table("kind | library | method | MiB | bare pass, MiB", lines)


def calls(everyone: Everyone) -> str:
    """Return how each library was called, and what it can that whence cannot."""
    return table(
        "library | called as | what it can that whence cannot",
        [
            f"| {name} | {cell(row['how'])} | {CANNOT.get(name, '')} |"
            for name, own in everyone.items()
            for row in picked(own, "called")
        ],
    )
