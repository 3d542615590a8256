"""A run, or two runs compared: as text, in a terminal, in Markdown, in LaTeX and on a page.

What is said is laid out once, as a document of blocks (`document`), and every surface writes the same blocks.
"""

from whence.report.run.html import fragment, page
from whence.report.run.latex import latex
from whence.report.run.markdown import markdown
from whence.report.run.text import plain

__all__ = ["fragment", "latex", "markdown", "page", "plain"]
