"""The workbench in a notebook: the page's pictures in a cell, and what is selected there back in Python."""

from whence.widget.open import workbench

__all__ = ["workbench"]
