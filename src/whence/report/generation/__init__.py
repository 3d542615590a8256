"""A generated answer and what it came from: as text, in a terminal and on a page."""

from whence.report.generation.html import fragment, page
from whence.report.generation.text import plain

__all__ = ["fragment", "page", "plain"]
