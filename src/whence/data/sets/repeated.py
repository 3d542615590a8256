"""Names that occur twice: of two columns or keys of one name, nobody can say which is meant."""

from collections import Counter
from collections.abc import Iterable

from whence.core.errors import BadExamples


def repeated_names(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, in their order."""
    return [name for name, count in Counter(names).items() if count > 1]


def refuse_repeated(where: str, names: Iterable[str], what: str) -> None:
    """Refuse a table of which two columns have the same name."""
    names = list(names)
    twice = repeated_names(names)
    if twice:
        raise BadExamples(f"{where}: {told_repeated(names, twice, what)}")


def told_repeated(names: Iterable[str], twice: Iterable[str], what: str) -> str:
    """Say which names occur how often, and what to do."""
    counts = Counter(names)
    said = ", ".join(f"{counts[name]} {what}s are called {name[:40]!r}" for name in twice)
    return f"{said}, and nobody can say which of them is meant. Give each {what} a name of its own."
