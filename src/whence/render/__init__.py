"""Surfaces without a server: the terminal, and one HTML file that opens from disk."""

from whence.report.html import fragment, page
from whence.report.text import plain

__all__ = ["fragment", "page", "plain"]
