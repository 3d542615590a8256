"""Page docs/science/attcat.md, from the results of bench.science.attcat."""

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

PAGE = ROOT / "docs" / "science" / "attcat.md"
INTRO = """# AttCAT's protocol

AOPC and LOdds as the authors of AttCAT compute them (Qiang et al. 2022, NeurIPS), for every method of whence, on
SST-2 and on ERASER's movie reviews. Written by `python -m bench.science.attcat` (`make science-attcat`) from
`bench/results/attcat-*.json`; it wants a GPU.

**The protocol**, as their code has it: the class explained and followed is the one that people named, not the
predicted one. In nine steps, from a ninth of all tokens to all (the special tokens are counted and never
removed), the highest tokens go. AOPC is the mean over steps and examples of |p(y | x) - p(y | x without them)|,
LOdds that of ln(p(y | x without them) / p(y | x)); inputs of fewer than ten tokens are skipped. Tokens go in two
ways: *deleted*, which is what they report, or replaced by the padding token, which stays attended to. These are
the presets `attcat` of `aopc` and `log_odds`; methods that have a preset `attcat` run with it, the others as they
are by default.

**Read it with care.** AOPC takes the size of a fall: a removal that makes the model surer counts like one that
makes it doubt, which is why random rankings get as much as they do. LOdds has a sign, but is ruled by the few
steps at which a probability nearly vanishes.
"""
TITLES = {
    "raw_attention": "RawAtt",
    "rollout": "Rollout",
    "attention_gradcam": "AttGrads",
    "partial_lrp": "PartialLRP",
    "transformer_attribution": "TransAtt",
    "cat": "CAT",
    "attcat": "AttCAT",
}
DIFFERENT = """
## Beside the published figures

The paper's tables are not quoted here: neither they nor saved outputs of the authors' notebooks could be had to
check them against. On SST-2 their model is `textattack/bert-base-uncased-SST-2`, and Movies is not among their
data sets. The only rerun we could read is that of [Contrast-CAT](https://arxiv.org/abs/2507.21186) (its
repository's README: AttCAT on IMDB AOPC 0.644, LOdds 0.198; BERT), with a protocol of its own, in which LOdds has
the other sign; it is no figure about these data.

What differs from theirs, whatever the figures are:

- **The model**: six layers of MiniLM instead of twelve of BERT-base, with other weights.
- **The pass that is explained is the one that is tested.** Their notebooks explain a pass in which [CLS] and
  [SEP] are masked out, and test one in which they are not.
- **Grads** is left out: the code they published returns zeros for it. **AttGrads** is what their code computes
  (attention grad-CAM of the last layer), not what their figure says; that is `attention_gradient`. **CAT** is not
  in their code.
- The other methods are not in the paper.
"""


def render_page(kept: Facts) -> str:
    """Return the page."""
    if not kept:
        return f"{INTRO}\nNo results yet.\n"
    lines = [INTRO, LEGEND, ""]
    for found in kept.values():
        lines += _render_part(found)
    return "\n".join(lines).rstrip() + "\n" + DIFFERENT


def _render_part(found: Facts) -> list[str]:
    data = found["data"]
    ways = [way for way in ("delete", "pad") if way in found]
    heads = ["method", "in the paper"]
    for way in ways:
        said = "deleted" if way == "delete" else "padded"
        n = _get_largest_n(found[way])
        heads += [f"AOPC, {said} ↑<br>n = {n}", f"LOdds, {said} ↓<br>n = {n}"]
    first = found[ways[0]]
    return [
        f"## {data['title']}",
        "",
        *(f"{_format_about(found[way], way, data)}" for way in ways),
        "",
        *(_format_findings(found[way], way) for way in ways),
        "",
        *format_table(heads, _iterate_rows(found, ways)),
        f"Made with {format_provenance(first, data)}",
        "",
    ]


def _get_largest_n(part: Facts) -> int:
    return max(int(one["n"]) for one in part["cells"])


def _format_about(part: Facts, way: str, data: Facts) -> str:
    counts = sorted({one["explained"] for one in part["methods"]}, reverse=True)
    fewer = {n: [m["method"] for m in part["methods"] if m["explained"] == n] for n in counts[1:]}
    said = f"By {way}: {counts[0]} of {data['examples']} examples, {data['sample']}"
    for n, names in fewer.items():
        said += (
            f"; {format_names(names)} on the first {n}"
            if n
            else f"; {format_names(names)} not at all"
        )
    return f"{said}.  "


def _format_findings(part: Facts, way: str) -> str:
    """Return the findings by rule: the leaders, and the methods no better than chance."""
    said = []
    for metric, name in (("aopc", "AOPC"), ("log_odds", "LOdds")):
        own = get_cells(part, metric)
        best = list_leaders(part, metric)
        lost = [
            method
            for method, one in own.items()
            if one["mean"] is not None and not one["beats_random"]
        ]
        said.append(
            f"by {name} {format_names(best)} cannot be told from the best, and {format_names(lost)} not from chance"
        )
    return f"Tokens {'deleted' if way == 'delete' else 'padded'}: {'; '.join(said)}.  "


def _iterate_rows(found: Facts, ways: Sequence[str]) -> Iterator[Sequence[str]]:
    columns = [(found[way], metric) for way in ways for metric in ("aopc", "log_odds")]
    yield ["*chance*", "", *(format_figure(get_chance(part, metric)) for part, metric in columns)]
    first = get_cells(*columns[0])
    order = sorted(first, key=lambda name: -(first[name]["mean"] or 0))
    for name in order:
        own = [
            format_marked(get_cells(part, metric).get(name), _get_largest_n(part))
            for part, metric in columns
        ]
        yield [f"`{name}`", TITLES.get(name, ""), *own]
