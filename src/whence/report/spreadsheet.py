"""Cells that a spreadsheet reads."""

from typing import Any


def harmless(value: Any) -> Any:
    """Keep a spreadsheet from running a text as a formula; numbers stay as they are."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r\n" and value else value
