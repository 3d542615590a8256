"""How figures are written on the pages of science: with interval, n and marks, and where they come from."""

from collections.abc import Iterable, Sequence

from bench.science.rows import Facts

LEGEND = (
    "Means with their 95% bootstrap interval. **Bold**: no other method is better by more than chance (paired "
    "sign-flip tests on the examples that both have, corrected by Holm for all comparisons of the column), of the "
    "methods with at least a third of the examples: of few, little can be told. °: not better than random "
    "rankings of the same examples by more than chance."
)


def figure(one: Facts | None, n: int | None = None, digits: int = 3) -> str:
    """Write a figure with its interval, and n where it is another."""
    if not one or one["mean"] is None:
        return "not tested"
    ends = (
        ""
        if one["low"] is None
        else f" [{one['low'] + 0.0:.{digits}f}, {one['high'] + 0.0:.{digits}f}]"
    )
    own = "" if n in (None, one["n"]) else f" (n = {one['n']})"
    return f"{one['mean'] + 0.0:.{digits}f}{ends}{own}"


def marked(cell: Facts | None, n: int | None = None, digits: int = 3) -> str:
    """Write the figure of a cell, bold if it is among the best, with ° if it says no more than chance does."""
    said = figure(cell, n, digits)
    if not cell or cell["mean"] is None:
        return said
    if not cell["beats_random"]:
        return f"{said} °"
    enough = n is None or 3 * cell["n"] >= n
    return f"**{said}**" if cell["best"] and enough else said


def cells(found: Facts, metric: str) -> dict[str, Facts]:
    """Return the cells of one metric by method."""
    return {one["method"]: one for one in found["cells"] if one["metric"] == metric}


def chance(found: Facts, metric: str) -> Facts | None:
    """Return what random explanations get."""
    null: Facts | None = next(one["null"] for one in found["metrics"] if one["metric"] == metric)
    return null


def leaders(found: Facts, metric: str) -> list[str]:
    """Name the methods that cannot be told from the best, of those that have a third of the examples at least."""
    own = cells(found, metric)
    most = max(one["n"] for one in own.values())
    return [name for name, one in own.items() if one["best"] and 3 * one["n"] >= most]


def led(found: Facts, metric: str) -> str:
    """Say who is the best, or who cannot be told from it."""
    names = leaders(found, metric)
    return f"{named(names)} {'is the best' if len(names) == 1 else 'cannot be told from the best'}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Write a table."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def named(names: Iterable[str]) -> str:
    """Write names of methods."""
    every = [f"`{name}`" for name in names]
    return " and ".join([", ".join(every[:-1]), every[-1]] if len(every) > 1 else every or ["none"])


def made(found: Facts, data: Facts | None = None) -> str:
    """Say by what a result was made, and of what."""
    how, model = found["provenance"], found["model"]
    code = ", ".join(f"{name} {how[name]}" for name in ("commit", "source") if name in how)
    said = (
        f"{model['name']}, a {model['class']} ({model['fingerprint']}); whence {how['whence']} "
        f"({code or 'from source'}), "
        f"torch {how['torch']}, transformers {how['transformers']}, {how['dtype']} on {how['device']} "
        f"({how.get('machine', 'a machine that was not noted')}){', ' + how['day'] if 'day' in how else ''}"
    )
    data = data or found["data"]
    name = data.get("file") or data["name"]
    return f"{said}. Data `{name}`, SHA-256 {data['sha256']}; seed 0."
