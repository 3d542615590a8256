"""Tables of docs/reference/store.md: columns of a run's tables, from the schema that writes them."""

from whence.runs.records import COLUMNS


def render_table(table: str) -> str:
    """Return the columns of a table."""
    lines = ["| column | type | what stands there |", "|---|---|---|"]
    for column in COLUMNS[table]:
        kind = str(column.type).replace("element: ", "")
        null = " or null" if column.nullable else ""
        lines.append(f"| `{column.name}` | {kind}{null} | {column.meaning} |")
    return "\n".join(lines)
