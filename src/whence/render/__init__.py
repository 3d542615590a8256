"""Documents and their writers: text, terminal, HTML, Markdown, LaTeX, charts and image maps."""

from whence.render.html import render_explanation_fragment, render_explanations_html
from whence.render.text import format_explanation_text

__all__ = ["format_explanation_text", "render_explanation_fragment", "render_explanations_html"]
