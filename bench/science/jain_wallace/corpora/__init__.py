"""Data sets of Jain and Wallace (2019), one module each: from the published files to rows."""

from collections.abc import Callable, Mapping
from pathlib import Path

from bench.science.jain_wallace.corpora import ag_news, babi, imdb, newsgroups, snli, sst
from bench.science.jain_wallace.corpora.corpus import Corpus

CORPORA: Mapping[str, Callable[[Path], Corpus]] = {
    "sst": sst.load_corpus,
    "20news": newsgroups.load_corpus,
    "agnews": ag_news.load_corpus,
    "imdb": imdb.load_corpus,
    "babi_1": babi.load_first,
    "babi_2": babi.load_second,
    "babi_3": babi.load_third,
    "snli": snli.load_corpus,
}
