"""Writer of docs/science/jain_wallace.md: the paper's claims, our figures beside the authors', agreement.

    python -m bench.science.jain_wallace.table [--cells DIR [--work DIR]] [--check]

With --cells, the cells of a run are first put into bench/results/jain_wallace.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from bench.science.jain_wallace.cell import ROOT, WORK, Cell
from bench.science.jain_wallace.figures import (
    AUTHORS,
    PAIRS,
    Figure,
    Found,
    collect_cells,
    compute_figures,
    load_results,
)
from bench.science.jain_wallace.run import ATTENTIONS, ENCODERS, VECTORS

from whence.stats.rank import spearman

PAGE = ROOT / "docs" / "science" / "jain_wallace.md"
SAID = {"bilstm": "BiLSTM", "cnn": "CNN", "average": "Average"}
STARTS = {"random": "random embeddings", "minilm": "embeddings from MiniLM's word pieces"}
Key = tuple[str, str, str, str]  # data, encoder, attention, vectors

INTRO = """# Jain & Wallace's table, reproduced

*Attention is not Explanation* (Jain & Wallace 2019, arXiv:1902.10186): their models, trained and examined by whence,
beside the figures that the authors committed. Written by `make science` from `bench/results/jain_wallace`.

Ours is the mean over our seeds, with the least and the greatest; how many there are stands beside it. **Within**
says whether the authors' figure, of one training whose seed was not set, lies between these two: with one seed nobody
knows, and with three it seldom does, even for a model that is the same. n is how many test examples a figure is about
(the fewest of a seed).

What is not the same as in 2019:

- **Embeddings.** The authors start from fastText (`simple`) and GloVe vectors, which could not be had. Ours start
  from a standard normal distribution; the variant starts from the word pieces of MiniLM. bAbI's are random in both.
- **Not here** are IMDB and bAbI 3, whose models were not trained, and the tweets, news and hospital records of the
  paper, which could not be had.
- **Data**, where the table of data sets says so. The vocabulary counts four special tokens.
- Their figures on permutations and adversaries were read off their vector plots (±0.002), so the share of large
  divergences counts from 0.595, where a bin of their histogram begins.

τ is Kendall's τ-b; gradients are gradient times input with attention held constant; leave-one-out deletes the word.
Where attention is constant there is no τ: the authors' mean is then missing, ours is of the other examples.
"""


COMPACT = """Tanh attention: ours, then the authors' in brackets; ✓ where theirs is within our seeds. In brackets
after a τ is the share of examples with p ≤ 0.05. The TVD of permutations and the JSD of the adversary are means of
the figures that both have, over classes and, of the former, bins of the largest weight; the tables below have each.
"""


def main() -> None:
    """Collect the cells, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=Path, help="a folder of cells to put into the results")
    parser.add_argument("--work", type=Path, default=WORK, help="where their manifest is")
    parser.add_argument("--check", action="store_true", help="fail if the page is out of date")
    options = parser.parse_args()
    if options.cells is not None:
        collect_cells(options.cells, options.work / "manifest.json")
    page = render_page(load_results())
    if options.check:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page:
            sys.exit(f"{PAGE.name} is out of date. Run `make science`.")
        return
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page, encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written")


def render_page(found: Mapping[str, Found]) -> str:
    """Return the whole page."""
    compared: dict[Key, list[Figure]] = {}
    for data, one in found.items():
        for kind, cells in _group_by_kind(one).items():
            compared[data, *kind] = compute_figures(
                one["data"], cells, f"{data}-{kind[0]}-{kind[1]}"
            )
    parts = [INTRO.rstrip()]
    if not compared:
        return "\n\n".join([*parts, "No results yet."]) + "\n"
    parts += [
        "## In short",
        _format_claims(compared),
        "## Data sets",
        _format_data(found),
        "## In one table",
    ]
    parts += [COMPACT.rstrip(), _format_compact(found, compared), _format_agreement(compared)]
    for data, one in found.items():
        parts += [f"## {one['data']['title']}", *_iterate_section(data, compared)]
    parts.append(_format_provenance(found))
    return "\n\n".join(parts) + "\n"


def _group_by_kind(one: Found) -> dict[tuple[str, str, str], list[Found]]:
    kinds = defaultdict(list)
    for cell in one["cells"]:
        name = Cell.of(cell["cell"])
        kinds[name.encoder, name.attention, name.vectors].append(cell)
    return dict(kinds)


def _format_data(found: Mapping[str, Found]) -> str:
    rows = [
        "| data set | train, dev | test | theirs | vocabulary | theirs | their embeddings | what differs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for data, one in found.items():
        facts, theirs = one["data"], AUTHORS["test"].get(data)
        sizes = {split: figures["n"] for split, figures in facts["sizes"].items()}
        classes = facts["sizes"]["test"]["classes"] if facts["by_class"] else {}
        tested = _format_counts(classes) or f"{sizes['test']:,}"
        rows.append(
            f"| {facts['title']} | {sizes['train']:,}, {sizes['dev']:,} | {tested} "
            f"| {_format_counts(theirs or {}) or '–'} | {facts['vocabulary']:,} | {AUTHORS['vocabulary'][data]:,} "
            f"| {AUTHORS['embeddings'][data]} | {facts['differs']} |"
        )
    return "\n".join(rows)


def _format_counts(classes: Mapping[str, int]) -> str:
    return " + ".join(f"{count:,}" for count in classes.values())


def _get_value(
    compared: Mapping[Key, list[Figure]], key: Key, kind: str, whose: str
) -> float | None:
    for one in compared.get(key, ()):
        if one.measure.kind == kind and not one.measure.of:
            return one.mean if whose == "ours" else one.authors
    return None


def _format_claims(compared: Mapping[Key, list[Figure]]) -> str:
    """Count the data sets in which each of the paper's claims holds, by their figures and by ours."""
    grad, loo = "τ(attention, gradient)", "τ(attention, leave-one-out)"
    both = "τ(leave-one-out, gradient)"
    claims = {
        "attention of a BiLSTM agrees less with gradients than that of an Average model": (
            ("bilstm", grad),
            ("average", grad),
        ),
        "… and less with leave-one-out": (("bilstm", loo), ("average", loo)),
        "in a BiLSTM attention agrees less with gradients than leave-one-out does": (
            ("bilstm", grad),
            ("bilstm", both),
        ),
    }
    rows = [
        "| what the paper says (tanh attention) | authors | ours, random | ours, MiniLM |",
        "|---|---|---|---|",
    ]
    sets = list(dict.fromkeys(key[0] for key in compared))
    for claim, sides in claims.items():
        cells = []
        for whose, vectors in (("authors", "random"), *(("ours", start) for start in VECTORS)):
            pairs = [
                [_get_value(compared, (data, encoder, "tanh", vectors), kind, whose) for encoder, kind in sides]
                for data in sets
            ]  # fmt: skip
            known = [(less, more) for less, more in pairs if less is not None and more is not None]
            holds = sum(less < more for less, more in known)
            cells.append(f"{holds} of {len(known)}" if known else "–")
        rows.append(f"| {claim} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _format_compact(found: Mapping[str, Found], compared: Mapping[Key, list[Figure]]) -> str:
    """Return a row for each data set, encoder and kind of embeddings."""
    kinds = ("accuracy", *PAIRS.values(), "permutation, median TVD", "adversarial JSD, mean")
    titles = [kind.partition(",")[0] if "JSD" in kind or "TVD" in kind else kind for kind in kinds]
    head = ["data set", "encoder", "embeddings", "seeds", *titles]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for (data, encoder, attention, vectors), every in compared.items():
        if attention != "tanh":
            continue
        seeds = max(len(one.seeds) for one in every)
        cells = [_format_both(every, kind) for kind in kinds]
        start = [found[data]["data"]["title"], SAID[encoder], vectors, str(seeds)]
        rows.append(f"| {' | '.join([*start, *cells])} |")
    return "\n".join(rows)


def _format_both(every: Sequence[Figure], kind: str) -> str:
    """Return our figure and theirs; of several of a kind, the means of those that both have."""
    own = [one for one in every if one.measure.kind == kind]
    if kind in PAIRS.values() or kind == "accuracy":
        own = [one for one in own if not one.measure.of]
    shared = [one for one in own if one.authors is not None] or own
    if not shared:
        return "–"
    share = [
        one for one in every if one.measure.kind == f"{kind}, share p ≤ 0.05" and not one.measure.of
    ]
    ours = f"{np.mean([one.mean for one in shared]):.3f}"
    ours += f" ({share[0].mean:.2f})" if share else ""
    if any(one.authors is None for one in shared):
        return f"{ours} [–]"
    theirs = f"{np.mean([one.authors for one in shared]):.3f}"
    theirs += f" ({share[0].authors:.2f})" if share and share[0].authors is not None else ""
    return f"{ours} [{theirs}]{' ✓' if len(shared) == 1 and shared[0].within else ''}"


def _format_agreement(compared: Mapping[Key, list[Figure]]) -> str:
    """Return the differences of the figures over all data sets and models, measure by measure."""
    rows = [
        "| measure | embeddings | figures | within | mean difference | its mean size | rank correlation |",
        "|---|---|---|---|---|---|---|",
    ]
    by_kind: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    for (_, _, _, vectors), found in compared.items():
        for one in found:
            if one.authors is not None and one.measure.chief and len(one.seeds) > 1:
                by_kind[one.measure.kind, vectors].append(one)
    for (kind, vectors), found in by_kind.items():
        ours, theirs = np.array([(one.mean, one.authors or 0.0) for one in found]).T
        rho = float(spearman(ours, theirs)[0]) if len(found) > 2 else float("nan")
        said = f"{rho:.2f}" if np.isfinite(rho) else "–"
        within = sum(bool(one.within) for one in found)
        rows.append(
            f"| {kind} | {vectors} | {len(found)} | {within} | {(ours - theirs).mean():+.3f} "
            f"| {abs(ours - theirs).mean():.3f} | {said} |"
        )
    return "\n".join(rows)


def _iterate_section(data: str, compared: Mapping[Key, list[Figure]]) -> Iterator[str]:
    """Yield the short table of tanh attention, and the rest folded."""
    for vectors in VECTORS:
        for attention in ATTENTIONS:
            own = {
                encoder: compared[data, encoder, attention, vectors]
                for encoder in ENCODERS
                if (data, encoder, attention, vectors) in compared
            }
            if not own:
                continue
            title = f"{attention} attention, {STARTS[vectors]}"
            first = vectors == "random" and attention == "tanh"
            if first:
                yield f"**{title[0].upper()}{title[1:]}**"
                yield _format_table(own, (True,))
                title += ": further figures"
            rest = _format_table(own, (False,) if first else (True, False))
            yield f"<details><summary>{title}</summary>\n\n{rest}\n\n</details>"


def _format_table(own: Mapping[str, list[Figure]], chief: tuple[bool, ...]) -> str:
    rows = [
        "| encoder | measure | n | seeds | ours | authors | difference | within |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for encoder, found in own.items():
        for one in found:
            if one.measure.chief not in chief:
                continue
            spread = f" ({min(one.seeds):.3f} … {max(one.seeds):.3f})" if len(one.seeds) > 1 else ""
            what = one.measure.kind + (f", {one.measure.of}" if one.measure.of else "")
            theirs = "–" if one.authors is None else f"{one.authors:.3f}"
            apart = "–" if one.difference is None else f"{one.difference:+.3f}"
            within = {None: "–", True: "yes", False: "no"}[one.within]
            rows.append(
                f"| {SAID[encoder]} | {what} | {one.n:,} | {len(one.seeds)} "
                f"| {one.mean:.3f}{spread} | {theirs} | {apart} | {within} |"
            )
    return "\n".join(rows)


def _format_provenance(found: Mapping[str, Found]) -> str:
    machines = {cell["provenance"]["machine"] for one in found.values() for cell in one["cells"]}
    seconds = sum(sum(cell["seconds"].values()) for one in found.values() for cell in one["cells"])
    count = sum(len(one["cells"]) for one in found.values())
    return f"{count} models, {seconds / 3600:.1f} hours of processes side by side, on {', '.join(sorted(machines))}."


if __name__ == "__main__":
    main()
