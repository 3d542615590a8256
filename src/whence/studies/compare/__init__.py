"""Comparison of two models with one tokenizer, on one input or over a data set; views of a data set."""

from whence.studies.compare.compare import compare, compare_on_input
from whence.studies.compare.comparison import Comparison

__all__ = ["Comparison", "compare", "compare_on_input"]
