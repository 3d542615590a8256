"""Two models of one tokenizer held against each other: on one input, and over a data set."""

from whence.comparison.result import Comparison
from whence.comparison.run import compare
from whence.comparison.single import compared

__all__ = ["Comparison", "compare", "compared"]
