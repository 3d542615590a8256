"""A comparison of two models: as text, in a terminal and on a page."""

from whence.report.comparison.html import fragment, page
from whence.report.comparison.text import plain

__all__ = ["fragment", "page", "plain"]
