"""The tables of docs/reference/store.md: the columns of a run's tables, made from the schema that writes them."""

from whence.run.store.schema import COLUMNS


def markdown(table: str) -> str:
    """Return the columns of a table."""
    lines = ["| column | type | what stands there |", "|---|---|---|"]
    for column in COLUMNS[table]:
        kind = str(column.type).replace("element: ", "")
        null = " or null" if column.nullable else ""
        lines.append(f"| `{column.name}` | {kind}{null} | {column.meaning} |")
    return "\n".join(lines)
