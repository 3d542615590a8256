"""An audit of attention: as text, in a terminal, in Markdown and on a page."""

from whence.report.audit.export import markdown
from whence.report.audit.html import fragment, page
from whence.report.audit.text import plain

__all__ = ["fragment", "markdown", "page", "plain"]
