"""The trust card: how far an explanation can be believed, as text, in a terminal and on a page."""

from whence.report.card.html import fragment, page
from whence.report.card.text import plain

__all__ = ["fragment", "page", "plain"]
