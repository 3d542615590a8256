"""The data sets of Jain and Wallace (2019), one module each: from the files as they came to their rows."""

from collections.abc import Callable, Mapping
from pathlib import Path

from bench.science.jain_wallace.corpora import ag_news, babi, imdb, newsgroups, snli, sst
from bench.science.jain_wallace.corpora.corpus import Corpus

CORPORA: Mapping[str, Callable[[Path], Corpus]] = {
    "sst": sst.corpus,
    "20news": newsgroups.corpus,
    "agnews": ag_news.corpus,
    "imdb": imdb.corpus,
    "babi_1": babi.first,
    "babi_2": babi.second,
    "babi_3": babi.third,
    "snli": snli.corpus,
}
