"""What the comparison of two runs says, in the order in which it is read."""

from collections.abc import Iterator, Mapping
from typing import Any

from whence.report.audit.wording import one_line
from whence.report.data import rows_told
from whence.report.figures import digits_of, interval
from whence.report.run.blocks import Block, Document, Facts, Line, Section, Table
from whence.report.run.wording import (
    counted,
    example,
    figure,
    listed,
    model,
    p_value,
    percent,
    progress,
)
from whence.report.table.grid import ARROWS

Payload = Mapping[str, Any]

_SIDES = (("a", "first"), ("b", "second"))
_GAINS = ("method", "metric", "n", "gain of the second", "p", "verdict")
_GAINS_LEGEND = (
    "By how much the second run is better than the first, example by example, over the examples that both tested "
    "[95% bootstrap interval]; what differs by rounding alone does not differ. Paired "
    "sign-flip tests, corrected by Holm's procedure for all rows of this table, at 5%."
)
_MEANS = ("method", "metric", "n", "first run", "its chance", "second run", "its chance")
_MEANS_LEGEND = (
    "Means over the same examples. ↑ more is better, ↓ less is better. Chance: what random explanations of these "
    "examples get."
)
_ALIKE = ("method", "agreement of the ranks", "chance")
_ALIKE_LEGEND = (
    "Kendall's τ-b between the scores of the first run and the second, over the examples that both cut into the same "
    "tokens and explained for the same target; 1 is the same order. Chance: the second run's scores dealt out at "
    "random."
)


def of_runs(payload: Payload) -> Document:
    """Lay out a comparison."""
    names = " and ".join(one_line(payload[side]["name"]) for side, _ in _SIDES)
    made = [
        Section(names, list(_overall(payload))),
        Section("What differs between the settings", list(_settings(payload))),
        Section("Are the explanations better?", list(_gains(payload))),
        Section("Are they the same?", list(_alike(payload))),
        Section("Predictions", list(_predictions(payload))),
        Section("Where they differ most", list(_examples(payload))),
    ]
    return Document("whence: two runs compared", [one for one in made if one.blocks])


def _overall(payload: Payload) -> Iterator[Block]:
    yield Line(one_line(payload["sentence"]), "strong")
    for side, which in _SIDES:
        if payload[side]["state"] != "complete":
            yield Line(f"The {which} run: {progress(payload[side])}", "warning")
        for line in payload[side]["damage"]:
            yield Line(f"The {which} run: {one_line(line)}", "warning")
    told = []
    for side, which in _SIDES:
        one = payload[side]
        told.append((f"{which} run", one_line(one["name"])))
        told.append(("model", model(one["model"])))
        taken = one.get("taken") or {"drawn": None}
        rows = "" if taken["drawn"] is None else f", {rows_told(taken)}"
        told.append(
            ("data", f"{one_line(one['data'])}, {counted(one['examples'], 'example')}{rows}")
        )
    told.append(("examples of both", _shared(payload["data"])))
    yield Facts(told)


def _shared(data: Mapping[str, Any]) -> str:
    alone = [
        f"{data[f'only_{side}']:,} only in the {which}"
        for side, which in _SIDES
        if data[f"only_{side}"]
    ]
    return f"{data['shared']:,}" + (f"; {', '.join(alone)}" if alone else "")


def _settings(payload: Payload) -> Iterator[Block]:
    for side, which in _SIDES:
        if payload["only"][side]:
            yield Line(f"Only in the {which} run: {listed(payload['only'][side], 40)}.")
    if not payload["differences"]:
        yield Line("Nothing that determines a result differs.")
        return
    rows = [
        (one_line(one["what"]), one_line(one["a"]), one_line(one["b"]))
        for one in payload["differences"]
    ]
    yield Table(("setting", "first run", "second run"), rows)


def _gains(payload: Payload) -> Iterator[Block]:
    rows = payload["gains"]
    if not rows:
        yield Line("No metric was tested in both runs by the same method.")
        return
    yield Table(_GAINS, [_gain(one) for one in rows])
    yield Line(_GAINS_LEGEND, "dim")
    if not any(one["enough"] for one in rows):
        yield Line(
            f"The examples are too few: with {counted(payload['comparisons'], 'comparison')}, differences can only "
            f"show from n={payload['needed']} on.",
            "warning",
        )
    yield Table(_MEANS, [_means(one) for one in rows if one["gain"]])
    yield Line(_MEANS_LEGEND, "dim")


def _gain(one: Mapping[str, Any]) -> tuple[str, ...]:
    gain, name = one["gain"], (one_line(one["method"]), one_line(one["metric"]))
    if not gain:
        return (*name, "0", "-", "-", one_line(one["verdict"]))
    said = interval(gain, digits_of([gain]), gain["n"])
    return (*name, f"{gain['n']:,}", said, p_value(one["p"]), one_line(one["verdict"]))


def _means(one: Mapping[str, Any]) -> tuple[str, ...]:
    n, four = one["gain"]["n"], [one[name] for name in ("a", "null_a", "b", "null_b")]
    digits = digits_of([figure for figure in four if figure])
    told = [interval(figure, digits, n) if figure else "-" for figure in four]
    return (
        one_line(one["method"]),
        f"{one_line(one['metric'])} {ARROWS[one['direction']]}",
        f"{n:,}",
        *told,
    )


def _alike(payload: Payload) -> Iterator[Block]:
    rows = [
        (one_line(one["method"]), figure(one["tau"]), figure(one["null"]))
        for one in payload["agreement"]
        if one["tau"]
    ]
    if rows:
        yield Table(_ALIKE, rows)
        yield Line(_ALIKE_LEGEND, "dim")
    for one in payload["agreement"]:
        if not one["tau"]:
            yield Line(f"{one_line(one['method'])}: {one_line(one['why'])}")
    equal = [one for one in payload["agreement"] if one["equal"]]
    if equal:
        told = [
            f"{one_line(one['method'])} {one['equal']:,} of {one['tau']['n']:,}" for one in equal
        ]
        yield Line(f"Equal to the last bit: {listed(told, 40)}.")


def _predictions(payload: Payload) -> Iterator[Block]:
    found = payload["predictions"]
    if not found["same"]:
        return
    yield Line(f"Both runs predict the same: {percent(found['same'])}.")
    for side, which in _SIDES:
        if found[f"accuracy_{side}"]:
            yield Line(f"Accuracy of the {which}: {percent(found[f'accuracy_{side}'])}.")
    if found["changed"]:
        shown = (
            f" The first {len(found['first'])}:" if found["changed"] > len(found["first"]) else ""
        )
        yield Line(f"{counted(found['changed'], 'prediction')} changed.{shown}")
        rows = [
            tuple(
                one_line(part or "-")
                for part in (
                    *(one["id"], one["a"], one["b"]),
                    one.get("gold") or one["label"],
                    one["text"],
                )
            )
            for one in found["first"]
        ]
        yield Table(("example", "first run", "second run", "label", "text"), rows)


def _examples(payload: Payload) -> Iterator[Block]:
    if payload["apart"]:
        yield Line("Of each method, the example on which the two runs agree least.", "dim")
    for one in payload["apart"]:
        yield example(one["a"], "First run")
        yield example(one["b"], "Second run")
