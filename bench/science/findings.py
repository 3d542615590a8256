"""Findings as sentences that rules make from all results: docs/science/README.md, and the README's table.

No figure and no name of a method is typed here: both come out of bench/results, so that other results make other
sentences. `make docs` writes both.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any

from bench.science.figure_format import (
    format_figure,
    format_leaders,
    format_names,
    format_table,
    get_cells,
    get_chance,
    list_leaders,
)
from bench.science.rankings import (
    PEOPLE,
    PIXELS,
    REMOVE,
    RESULTS,
    TESTS,
    are_results_complete,
    collect_scores,
    compute_mean_ranks,
    compute_ranks,
    correlate,
    count_recovered,
    count_sentences,
    get_family,
    list_failed_tests,
    load_result,
)
from bench.science.sources import CANNOT, INTRO, PAGES, SURE, iterate_sources

from whence.methods import is_trace_method, method

WEAK = 0.5  # a rank correlation below this says little about the other order


def build_statements() -> list[str]:
    """Return the statements that follow from the results, by rule."""
    places, every = compute_mean_ranks(), collect_scores()
    best = list(places)[:3]
    passes = [name for name in places if is_trace_method(method.get(name))]
    always = [name for name in places if not list_failed_tests(name)]
    lost = {name: own for name in places if (own := list_failed_tests(name))}
    lines = [
        "**Who leads.** "
        + " ".join(
            f"On {name}, by {one.metric}, {format_leaders(one.evaluation, one.metric)}."
            for name, one in REMOVE.items()
        )
        + f" Over the four columns below, {format_names(best)} have the best mean rank of {len(places)} methods "
        f"({', '.join(f'{places[name]:.1f}' for name in best)}); of those that read one pass, {format_names(passes[:3])}.",
        f"**Against chance.** {len(always)} of {len(places)} methods beat random rankings in each of {len(TESTS)} "
        f"tests ({', '.join(f'{one.metric} on {one.data}' for one in TESTS)}): {format_names(always)}. The others could not "
        "be told from them at least once: "
        + "; ".join(f"`{name}` by {', '.join(own)}" for name, own in lost.items()) + ".",
        "**Families.** Mean ranks, by family: " + ", ".join(
            f"{name} {own:.1f}" for name, own in sorted(_rank_families(places).items(), key=lambda item: item[1])
        ) + ". Attention alone: " + _format_attention() + ".",
    ]  # fmt: skip
    texts, pets = every["SST-2"], every["photographs"]
    pairs = {
        "SST-2 and Movies": correlate(texts, every["Movies"]),
        "SST-2 and photographs": correlate(texts, pets),
        "Movies and photographs": correlate(every["Movies"], pets),
        "truth and SST-2": correlate(every["truth"], texts),
    }
    said = ", ".join(f"{name} {rho:.2f}" for name, (rho, _) in pairs.items())
    lines.append(
        f"**Does it carry over?** Spearman's correlation between the orders of the {len(places)} methods: {said}. "
        "What is faithful for one model is a good guess for another, and no more: "
        "`whence recommend` tests it on yours."
    )
    people = {name: correlate(REMOVE[name].gains, one.gains) for name, one in PEOPLE.items()}
    first = {
        name: max(one.gains, key=lambda who, own=one.gains: own[who])
        for name, one in PEOPLE.items()
    }
    where = {name: compute_ranks(REMOVE[name].gains) for name in PEOPLE}
    lines.append(
        f"**{_format_people(rho for rho, _ in people.values())}** "
        + " ".join(
            f"On {name} `{first[name]}` agrees best with people ({PEOPLE[name].metric}) and is number "
            f"{where[name][first[name]]:.0f} of {people[name][1]} by {REMOVE[name].metric}; the two orders of "
            f"methods correlate by {people[name][0]:.2f}."
            for name in PEOPLE
        )
    )
    patches = REMOVE["photographs"]
    rho, count = correlate(patches.gains, PIXELS.gains)
    surprise = (
        "What surprised us: the way of removal decides" if rho < WEAK else "The way of removal"
    )
    lines.append(
        f"**{surprise}.** On the same photographs, {patches.metric} (patches, replaced by the mean colour; "
        f"probability) and {PIXELS.metric} (pixels, black; accuracy) put {count} methods into orders that correlate "
        f"by {rho:.2f}: by the one {format_leaders(patches.evaluation, patches.metric)}, by the other "
        f"{format_leaders(PIXELS.evaluation, PIXELS.metric)}."
    )
    return lines


def _format_people(found: Iterable[float]) -> str:
    weak = all(rho < WEAK for rho in found)
    return "What people like is not what the model used." if weak else "Agreement with people."


def _rank_families(places: Mapping[str, float]) -> dict[str, float]:
    own: dict[str, list[float]] = {}
    for name, place in places.items():
        own.setdefault(get_family(name), []).append(place)
    return {name: mean(each) for name, each in own.items()}


def _format_attention() -> str:
    """Return the sentence on how far the last layer's attention beats chance."""
    said = []
    for name, one in REMOVE.items():
        cell, null = (
            get_cells(one.evaluation, one.metric)["raw_attention"],
            get_chance(one.evaluation, one.metric),
        )
        said.append(f"{format_figure(cell)} on {name}, chance {format_figure(null)}")
    removed, deleted = REMOVE["SST-2"].metric, REMOVE["photographs"].metric
    return f"`raw_attention` gets {removed} {said[0]}; {said[1]}; and {deleted} {said[2]}"


def _build_row(name: str, places: Mapping[str, float] | None) -> list[str]:
    found = [f"`{name}`", get_family(name)]
    for one in REMOVE.values():
        cell = get_cells(one.evaluation, one.metric).get(name)
        most = max(own["n"] for own in get_cells(one.evaluation, one.metric).values())
        if not cell or cell["mean"] is None:
            found.append("not tested")
            continue
        said = format_figure(cell["gain"], most)
        said = f"**{said}**" if name in list_leaders(one.evaluation, one.metric) else said
        found.append(said if cell["beats_random"] else f"{said} °")
    found.append(f"{count_recovered()[name]} of {count_sentences()}")
    if places is not None:
        found.append(f"{places[name]:.1f}" if name in places else "–")
    return found


def _build_heads() -> list[str]:
    said = [
        f"{name}<br>{one.metric}, {one.removal}, n = {max(c['n'] for c in get_cells(one.evaluation, one.metric).values())}"
        for name, one in REMOVE.items()
    ]
    return ["method", "family", *said, "[truth](truth.md)<br>recovered"]


def render_page() -> str | None:
    """Return the page."""
    if not are_results_complete():
        return None
    places = compute_mean_ranks()
    rest = [name for name in count_recovered() if name not in places]
    by_chance = sum(load_result("truth.json")["chance"].values())
    return "\n".join(
        [
            INTRO,
            *(f"- {line}" for line in build_statements()),
            "",
            "## The methods, side by side",
            "",
            "Gain over random rankings of the same examples, with its 95% interval: more is better in every column, "
            "and 0 is chance. **Bold**: not to be told from the best, of methods with at least a third of the "
            "examples. °: not to be told from chance. The last column is the mean of a method's four ranks, a "
            "summary and no test. Random scores would recover "
            f"{by_chance:.1f} of {count_sentences()} sentences.",
            "",
            *format_table([*_build_heads(), "mean rank"], (_build_row(name, places) for name in (*places, *rest))),
            SURE,
            CANNOT,
            "## Every result, and its command",
            "",
            PAGES,
            *format_table(["page", "command", "examples", "made with"], iterate_sources(RESULTS)),
        ]
    ).rstrip() + "\n"  # fmt: skip


def render_readme() -> str:
    """Return the table of the README: the best of each family, attention alone, and chance."""
    if not are_results_complete():
        return "*Not computed yet: run `make science`.*"
    places = compute_mean_ranks()
    best: dict[str, str] = {}
    for name in places:
        best.setdefault(get_family(name), name)
    chosen = sorted({*best.values(), "raw_attention"}, key=lambda name: places[name])
    heads: Sequence[Any] = [
        "the best of each family, and attention alone",
        *(
            f"{name}: {one.metric} {'↓' if one.metric == 'deletion' else '↑'}, {one.removal}"
            for name, one in REMOVE.items()
        ),
        "truth ↑",
    ]  # fmt: skip
    rows = []
    most = [
        max(c["n"] for c in get_cells(one.evaluation, one.metric).values())
        for one in REMOVE.values()
    ]
    for name in chosen:
        own = [get_cells(one.evaluation, one.metric)[name] for one in REMOVE.values()]
        marks = [name in list_leaders(one.evaluation, one.metric) for one in REMOVE.values()]
        said = [format_figure(cell, most[at], 2) for at, cell in enumerate(own)]
        bold = [f"**{text}**" if best else text for text, best in zip(said, marks, strict=True)]
        rows.append(
            [
                f"`{name}`, {get_family(name)}",
                *bold,
                f"{count_recovered()[name]} of {count_sentences()}",
            ]
        )
    nulls = [get_chance(one.evaluation, one.metric) for one in REMOVE.values()]
    by_chance = sum(load_result("truth.json")["chance"].values())
    rows.append(
        [
            "*random rankings*",
            *(format_figure(one, digits=2) for one in nulls),
            f"{by_chance:.1f} of {count_sentences()}",
        ]
    )
    always = [name for name in places if not list_failed_tests(name)]
    return "\n".join(
        [
            *format_table(heads, rows),
            f"The best by mean rank over the four columns, of the {len(places)} methods that have all of them. "
            f"**Bold**: not to be told from the best of a column. {len(always)} of them beat random rankings in each "
            f"of {len(TESTS)} tests of faithfulness. Small models, two kinds of text and one of picture.",
        ]
    )
