"""The table of an evaluation: methods by metrics, for a terminal, a paper, a notebook or a program."""

from whence.report.table.export import compared, latex, markdown, tidy
from whence.report.table.html import fragment, page
from whence.report.table.text import plain

__all__ = ["compared", "fragment", "latex", "markdown", "page", "plain", "tidy"]
