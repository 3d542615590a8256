"""Rows of a stored run: which are wanted, and one of them word by word."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whence.core.errors import NotFound, WhenceError
from whence.web.schema.base import Scale, Source
from whence.web.schema.runs import RunExample, RunRow, RunRows, RunTest, RunWord

if TYPE_CHECKING:
    from whence.run.results import Run
    from whence.run.store.browse import Wanted

PAGE = 50


def rows(run: "Run", wanted: "Wanted", page: int) -> RunRows:
    """Return a page of the rows that are wanted; one beyond the last is empty."""
    from whence.run.store.browse import finite, sheet

    first = page * PAGE
    found = sheet(run.folder, replace(wanted, settings=_settings(run)), first, PAGE)
    shown = [
        RunRow(
            **{
                **{name: value for name, value in record.items() if name != "gold"},
                "label": _label(record),
                "probability": finite(record["probability"]),
            }
        )
        for record in found.records
    ]
    return RunRows(rows=shown, found=found.found, first=first, problems=found.unread)


def falls(metric: str, best: bool) -> bool:
    """Say whether the largest values come first, where the best or the worst are to."""
    from whence.metrics import metric as metrics

    try:
        higher = bool(metrics.get(metric).facts["direction"] == "higher")
    except WhenceError:  # of a package that is not installed here
        higher = True
    return higher == best


def example(run: "Run", row: int, method: str | None) -> RunExample:
    """Return one row as a method explained it; without a method, the first that did."""
    from whence.run.store.browse import finite, of_row

    explained, tested = of_row(run.folder, row, _settings(run))
    by_method = {record["method"]: record for record in explained}
    chosen = by_method.get(next(iter(by_method), "") if method is None else method)
    if chosen is None:
        by = "" if method is None else f" by {method[:100]!r}"
        raise NotFound(f"The run has no explanation{by} of row {row}.")
    name = chosen["method"]
    payload = None if chosen["error"] else run.explanation(row, name)
    given = (
        payload["input"] if payload else {**{k: chosen[k] for k in ("text", "pair")}, "dropped": 0}
    )
    facts = {key: chosen[key] for key in ("target", "predicted", "why")}
    return RunExample(
        **facts,
        label=_label(chosen),
        row=row,
        method=name,
        methods=list(by_method),
        input=Source.model_validate(given),
        probability=finite(chosen["probability"]),
        signed=bool(payload and payload["explanations"][0]["signed"]),
        scale=Scale.model_validate(payload["explanations"][0]["scale"]) if payload else None,
        words=_words(payload) if payload else [],
        tests=[
            RunTest(
                metric=one["metric"],
                value=finite(one["value"]),
                null=finite(one["null"]),
                why=one["why"],
            )
            for one in tested
            if one["method"] == name
        ],
    )


def _label(record: dict[str, Any]) -> str | None:
    """Return the true label as the model calls it, where that is known, else as the data has it."""
    label: str | None = record["gold"] or record["label"]
    return label


def _settings(run: "Run") -> frozenset[str]:
    """Return those that the run asks for now: rows of earlier code or parameters are not shown."""
    from whence.run.store.manifest import settings_of

    return frozenset(settings_of(run.manifest))


def _words(payload: dict[str, Any]) -> list[RunWord]:
    """Return the words with what stands between them."""
    texts = (payload["input"]["text"], payload["input"]["pair"])
    found: list[RunWord] = []
    before: dict[str, Any] | None = None
    for word, score in zip(
        payload["words"], payload["explanations"][0]["word_scores"], strict=True
    ):
        gap = ""
        if before is not None and before["segment"] == word["segment"]:
            text = texts[word["segment"]]
            gap = (
                " "
                if text is None or word["start"] is None
                else text[before["end"] : word["start"]]
            )
        found.append(RunWord(text=word["text"], before=gap, segment=word["segment"], score=score))
        before = word
    return found
