"""Page docs/science/eraser.md, from the results of bench.science.eraser."""

from collections.abc import Iterator, Sequence

from bench.science.figure_format import (
    LEGEND,
    format_figure,
    format_marked,
    format_names,
    format_provenance,
    format_table,
    get_cells,
    get_chance,
    list_leaders,
)
from bench.science.rows import ROOT, Facts

PAGE = ROOT / "docs" / "science" / "eraser.md"
INTRO = """# Human rationales

People marked in movie reviews what speaks for their label (ERASER, DeYoung et al. 2020,
[arXiv:1911.03429](https://arxiv.org/abs/1911.03429)). Two protocols: ERASER's soft scores, and the curve of
Chefer, Gur & Wolf ([CVPR 2021](https://arxiv.org/abs/2012.09838)). Written by `python -m bench.science.eraser`
(`make science-eraser`) from `bench/results/eraser-movies.json`; it wants a GPU.

Whether an explanation agrees with people (AUPRC, token F1, IOU F1) and whether it is true of the model
(comprehensiveness, sufficiency) are two questions: a model may decide by other words than people do.
"""
SOFT = """
ERASER's metrics for scores, for the predicted class. Units are words, and a word has the sum of its pieces; the
highest 1, 5, 10, 20 and 50% of them are deleted (comprehensiveness) or kept alone (sufficiency), and the mean
over the five shares is taken, as the authors' code does (their formula also counts a share of 0, which makes it
5/6 of that). Token F1 and IOU F1 choose as many words as people marked; IOU F1 is of mean precision and mean
recall, at a threshold of a half. Rationales are judged within the first 512 tokens, which the model reads.
"""
METRICS = (
    ("auprc", "AUPRC ↑"),
    ("token_f1", "token F1 ↑"),
    ("iou_f1", "IOU F1 ↑"),
    ("comprehensiveness", "comprehensiveness ↑"),
    ("sufficiency", "sufficiency ↓"),
)
# https://github.com/successar/Eraser-Benchmark-Baseline-Models/issues/1
PUBLISHED = (
    ("BERT-LSTM + attention", "rerun by a reader", "0.463", "0.223", "0.141"),
    ("BERT-LSTM + gradient", "rerun by a reader", "0.469", "0.222", "0.141"),
)
DIFFERENT = """
The rerun is that of a reader who could not reproduce the table of the paper ([their
report](https://github.com/successar/Eraser-Benchmark-Baseline-Models/issues/1)). The paper's own figures are not
quoted: the table was not at hand, and a figure from memory is none.

Why ours differ:

- **The model.** Theirs is BERT with an LSTM and one layer of attention on top of it; ours reads 512 tokens with
  six layers of MiniLM. What a model decides by, and how far its probability falls, is its own. A model that is
  less sure has less to lose.
- **Random rankings** already get a large part of AUPRC, because much is marked; on other words than theirs (ours
  are those that the tokenizer sees, within the first 512 tokens), chance is another.
- **Deleting** words makes texts that no model was trained on, and shortens them.
"""
CURVE = """
Token F1 of the k highest words, for the class that people named, against all words that they marked, those beyond
the 512th token included (so that it cannot reach 1). As in the authors' code a word has the highest score of its
pieces, nothing below zero counts, and the settings are theirs where there are some (`preset=chefer_bert`: for
`transformer_attribution` the last layer alone). They show a figure, k from 10 to 80, with F1 between 0 and 0.25,
and no numbers; their model is BERT-base.
"""
SHOWN = (10, 20, 40, 80)


def render_page(found: Facts) -> str:
    """Return the page."""
    if not found:
        return f"{INTRO}\nNo results yet.\n"
    n = max(int(one["n"]) for one in found["cells"])
    counts = sorted({one["explained"] for one in found["methods"]}, reverse=True)
    few = [one["method"] for one in found["methods"] if one["explained"] == counts[-1]]
    heads = ["method", *(head for _, head in METRICS)]
    lines = [
        INTRO,
        f"The model is right about {found['right']['n']} of {found['right']['of']} reviews. {counts[0]} of "
        f"{found['data']['examples']} reviews were explained by methods that read one pass, and the first "
        f"{counts[-1]} of an order drawn by seed 0 by {format_names(few)}, which ask the model up to thousands of times "
        "about each.",
        "",
        LEGEND,
        "",
        _format_findings(found),
        "",
        "## ERASER's soft scores",
        SOFT,
        *format_table(heads, _iterate_rows(found, n)),
        "Beside published ones, of other models, on the same test set:",
        "",
        *format_table(["model and method", "source", "AUPRC", "comprehensiveness", "sufficiency"], PUBLISHED),
        DIFFERENT.strip(),
        "",
        "## The curve of Chefer et al.",
        CURVE,
        *format_table(["method", *(f"k = {k}" for k in SHOWN)], _iterate_curve_rows(found["curve"])),
        f"Made with {format_provenance(found)}",
    ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def _format_findings(found: Facts) -> str:
    """Return the findings by rule."""
    said = []
    for metric, head in METRICS:
        said.append(f"by {head[:-2]} {format_names(list_leaders(found, metric))}")
    own = found["curve"]["methods"]
    at = found["curve"]["words"].index(SHOWN[-1])
    known = [name for name in own if name != "random" and own[name][at]]
    order = sorted(known, key=lambda name: -own[name][at]["mean"])
    return (
        f"Not to be told from the best, of methods with at least a third of the reviews: {'; '.join(said)}. Of the "
        f"{SHOWN[-1]} highest words, `{order[0]}` finds most of what people marked, then `{order[1]}` and "
        f"`{order[2]}`."
    )


def _iterate_rows(found: Facts, n: int) -> Iterator[Sequence[str]]:
    yield ["*chance*", *(format_figure(get_chance(found, metric)) for metric, _ in METRICS)]
    first = get_cells(found, "auprc")
    for name in sorted(first, key=lambda name: -(first[name]["mean"] or 0)):
        yield [
            f"`{name}`",
            *(format_marked(get_cells(found, metric).get(name), n) for metric, _ in METRICS),
        ]


def _iterate_curve_rows(curve: Facts) -> Iterator[Sequence[str]]:
    places = [curve["words"].index(k) for k in SHOWN]
    own = {name: each for name, each in curve["methods"].items() if each[places[-1]]}
    n = max(int(each[places[-1]]["n"]) for each in own.values())
    for name in sorted(own, key=lambda name: -own[name][places[-1]]["mean"]):
        said = "*random orders*" if name == "random" else f"`{name}`"
        yield [said, *(format_figure(own[name][place], n) for place in places)]
