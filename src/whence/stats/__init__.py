"""Arithmetic on numbers that are there already: ranks, intervals, paired tests, and the figures of ERASER.

Nothing here knows a model or an explanation. What cannot be known has its own answer (None, or NaN in an array of
answers), which is for the caller to say in words.
"""

from whence.stats.bins import entropy, kl, over_bins
from whence.stats.interval import FEWEST, Interval, Percentile, bootstrap, percentile, proportion
from whence.stats.paired import holm, least_p, needed, sign_flip
from whence.stats.rank import kendall, pearson, ranks, spearman, top_k_overlap
from whence.stats.retrieval import auprc, average_precision, roc_auc
from whence.stats.significance import kendall_p
from whence.stats.spans import (
    Counts,
    Rates,
    Span,
    exact,
    f1,
    macro,
    macro_of_means,
    micro,
    overlapping,
    runs,
    tokens,
)

__all__ = [
    "FEWEST",
    "Counts",
    "Interval",
    "Percentile",
    "Rates",
    "Span",
    "auprc",
    "average_precision",
    "bootstrap",
    "entropy",
    "exact",
    "f1",
    "holm",
    "kendall",
    "kendall_p",
    "kl",
    "least_p",
    "macro",
    "macro_of_means",
    "micro",
    "needed",
    "over_bins",
    "overlapping",
    "pearson",
    "percentile",
    "proportion",
    "ranks",
    "roc_auc",
    "runs",
    "sign_flip",
    "spearman",
    "tokens",
    "top_k_overlap",
]
