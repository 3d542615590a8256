"""Format of figures for the pages of docs/science: intervals, best and chance marks, tables, provenance."""

from collections.abc import Iterable, Sequence

from bench.science.rows import Facts

LEGEND = (
    "Means with their 95% bootstrap interval. **Bold**: no other method is better by more than chance (paired "
    "sign-flip tests on the examples that both have, corrected by Holm for all comparisons of the column), of the "
    "methods with at least a third of the examples: of few, little can be told. °: not better than random "
    "rankings of the same examples by more than chance."
)


def format_figure(one: Facts | None, n: int | None = None, digits: int = 3) -> str:
    """Format a figure with its interval, and n where it differs."""
    if not one or one["mean"] is None:
        return "not tested"
    ends = (
        ""
        if one["low"] is None
        else f" [{one['low'] + 0.0:.{digits}f}, {one['high'] + 0.0:.{digits}f}]"
    )
    own = "" if n in (None, one["n"]) else f" (n = {one['n']})"
    return f"{one['mean'] + 0.0:.{digits}f}{ends}{own}"


def format_marked(cell: Facts | None, n: int | None = None, digits: int = 3) -> str:
    """Format the figure of a cell: bold if it is among the best, with ° if it is no better than chance."""
    said = format_figure(cell, n, digits)
    if not cell or cell["mean"] is None:
        return said
    if not cell["beats_random"]:
        return f"{said} °"
    enough = n is None or 3 * cell["n"] >= n
    return f"**{said}**" if cell["best"] and enough else said


def get_cells(found: Facts, metric: str) -> dict[str, Facts]:
    """Return the cells of one metric by method."""
    return {one["method"]: one for one in found["cells"] if one["metric"] == metric}


def get_chance(found: Facts, metric: str) -> Facts | None:
    """Return the figure of random explanations."""
    null: Facts | None = next(one["null"] for one in found["metrics"] if one["metric"] == metric)
    return null


def list_leaders(found: Facts, metric: str) -> list[str]:
    """Return the methods not separable from the best, of those with a third of the examples at least."""
    own = get_cells(found, metric)
    most = max(one["n"] for one in own.values())
    return [name for name, one in own.items() if one["best"] and 3 * one["n"] >= most]


def format_leaders(found: Facts, metric: str) -> str:
    """Return the phrase that names the best method, or those not separable from it."""
    names = list_leaders(found, metric)
    return f"{format_names(names)} {'is the best' if len(names) == 1 else 'cannot be told from the best'}"


def format_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Format a table."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def format_names(names: Iterable[str]) -> str:
    """Format names of methods."""
    every = [f"`{name}`" for name in names]
    return " and ".join([", ".join(every[:-1]), every[-1]] if len(every) > 1 else every or ["none"])


def format_provenance(found: Facts, data: Facts | None = None) -> str:
    """Return the sentence on model, versions, machine and data of a result."""
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
