"""Page docs/science/tasks.md on pairs and answers, from the results of bench.science.tasks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

INTRO = """# Pairs and answers

Two heads on a small pre-trained encoder (all-MiniLM-L6-v2: 6 layers, 12 heads, 384 wide), fitted here on data that no
model was given for. They are fitted to have something to explain, not to be good at it. Each figure has its 95%
bootstrap interval; what random explanations get stands beside it. Written by `python -m bench.science.tasks --page`
from `bench/results/tasks.json`.
"""

ANSWERS = """## Answers in a text: Precision@20

The protocol of AttCAT (Qiang et al. 2022): the sum of the start's and the end's logit of the best span is explained,
and counted is how many tokens of the gold answer are among the 20 highest. It is a count, not a share: its ceiling is
the length of the answers. It is about the gold answer and the model's own is explained: where the model is wrong, a
faithful explanation has no reason to find it, so the second column has only the questions where the model's answer
shares a word with the gold one. Questions of {articles} articles that the head was not fitted on. Special tokens are
not ranked, tokens of the question are. ° marks what cannot be told from random rankings.
"""

SEGMENTS = """### Which of the two sentences

The part of all scores, by size, that falls on the hypothesis, over {n} pairs. What is expected of scores that
know nothing is its part of the tokens.
"""

BETWEEN = """### What crosses from one sentence to the other

Of what flows back from the decision along edges between tokens of the two sentences (special tokens left out), the
part that goes from one sentence to the other, layer by layer from the input. If all tokens counted the same it would
be {chance:.2f}. In the last layer only the classification token attends to anything that is read, so nothing crosses.
"""


def render_page(found: Mapping[str, Any]) -> str:
    """Return the page."""
    lines = [INTRO]
    if "answers" in found:
        lines += _iterate_answers(found["answers"])
    if "nli" in found:
        lines += _iterate_nli(found["nli"])
    lines += ["", f"Measured on {found['machine']}."]
    return "\n".join(lines) + "\n"


def _iterate_answers(found: Mapping[str, Any]) -> Iterator[str]:
    yield ANSWERS.format(articles=found["articles"])
    yield (
        f"Fitted on {found['fitted_on']} questions. Exact match {_format_interval(found['exact'])}, F1 {_format_interval(found['f1'])} "
        f"(n = {found['exact']['n']})."
    )
    yield ""
    parts = [found["all"], found["right"]]
    counts = [one["examples"]["explained"] for one in parts]
    yield f"| | all questions (n = {counts[0]}) | those the model has a word of (n = {counts[1]}) |"
    yield "|---|---|---|"
    yield _format_row("at most", [_format_interval(one["ceiling"]) for one in parts])
    yield _format_row("random, expected", [f"{one['expected']:.2f}" for one in parts])
    cells = [{cell["method"]: cell for cell in one["cells"]} for one in parts]
    names = sorted(cells[0], key=lambda name: -(cells[0][name]["mean"] or 0))
    for name in names:
        yield _format_row(_format_code(name), [_format_cell(own.get(name)) for own in cells])
    yield from _iterate_failures(found["all"]["methods"])


def _iterate_nli(found: Mapping[str, Any]) -> Iterator[str]:
    yield "\n## Natural language inference\n"
    yield (
        f"Fitted on {found['fitted_on']:,} pairs of e-SNLI's development set; accuracy on its test set "
        f"{_format_interval(found['accuracy'])} (n = {found['accuracy']['n']:,})."
    )
    yield "\n### Does the model use what they point at\n"
    metrics = [one["metric"] for one in found["metrics"]]
    ways = {one["metric"]: one["direction"] for one in found["metrics"]}
    yield (
        f"Tokens of both sentences, replaced by the mask token, of {found['examples']['explained']} pairs.\n"
    )
    better = {"higher": "more is better", "lower": "less is better"}
    yield _format_row("", [f"{name} ({better[ways[name]]})" for name in metrics])
    yield "|---|" + "---|" * len(metrics)
    nulls = [next(one["null"] for one in found["metrics"] if one["metric"] == m) for m in metrics]
    yield _format_row("random", [_format_interval(null) for null in nulls])
    cells = {(cell["method"], cell["metric"]): cell for cell in found["cells"]}
    names = list(dict.fromkeys(cell["method"] for cell in found["cells"]))
    first = metrics[0]
    sign = 1 if ways[first] == "lower" else -1
    for name in sorted(names, key=lambda one: sign * (cells[one, first]["mean"] or 0)):
        yield _format_row(
            _format_code(name), [_format_cell(cells.get((name, metric))) for metric in metrics]
        )
    yield from _iterate_failures(found["methods"])
    yield from _iterate_segments(found["segments"])
    yield from _iterate_crossings(found["between"])


def _iterate_segments(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "\n" + SEGMENTS.format(n=found[0]["n"])
    labels = list(found[1]["by_label"])
    heads = [f"where it says {label}" for label in labels]
    yield _format_row("", ["all", *heads])
    yield "|---|" + "---|" * (1 + len(labels))
    yield _format_row("of the tokens", [_format_interval(found[0]), *["" for _ in labels]])
    for one in sorted(found[1:], key=lambda row: -row["mean"]):
        own = [_format_interval(one["by_label"].get(label)) for label in labels]
        yield _format_row(_format_code(one["method"]), [_format_interval(one), *own])


def _iterate_crossings(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "\n" + BETWEEN.format(chance=found[0]["chance"])
    layers = len(found[0]["layers"])
    yield _format_row("", [f"layer {layer}" for layer in range(layers)])
    yield "|---|" + "---|" * layers
    for one in found:
        yield _format_row(
            one["weight"].replace("_", " "), [_format_interval(layer) for layer in one["layers"]]
        )


def _iterate_failures(methods: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the methods without a figure, and the reasons."""
    for one in methods:
        for reason in one["why_not"]:
            yield f"\n{_format_code(one['method'])}, {reason['count']} without: {reason['why']}"


def _format_row(head: str, cells: Sequence[str]) -> str:
    return f"| {head} | {' | '.join(cells)} |"


def _format_code(name: str) -> str:
    return f"`{name}`"


def _format_cell(cell: Mapping[str, Any] | None) -> str:
    if cell is None or cell["mean"] is None:
        return "–"
    told = "" if cell["beats_random"] else "°"
    return f"{_format_interval(cell)}{told}"


def _format_interval(interval: Mapping[str, Any] | None) -> str:
    if interval is None or interval["mean"] is None:
        return "–"
    if interval["low"] is None:
        return f"{interval['mean']:.2f}"
    return f"{interval['mean']:.2f} ({interval['low']:.2f} to {interval['high']:.2f})"
