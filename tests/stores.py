"""Run stores made by hand for tests: plans, worker identities, windows and task results without any model."""

import re
from pathlib import Path

from whence.data.dataset import SkippedRow, compute_example_id, compute_input_id
from whence.data.example import Example
from whence.runs.chunks import Window, split_into_chunks
from whence.runs.plan import Plan
from whence.runs.records import build_tables
from whence.runs.store import Store
from whence.runs.task import Identity, Item, TaskResult, compute_setting_digest

DATA = {"name": "reviews.tsv", "kind": "tsv", "columns": {"text": "text", "label": "label"}}


def plan(**changed):
    """Make a plan; what is changed determines results."""
    return Plan(**{"model": "reviews", "data": "reviews.tsv", **changed})


def identity(methods=("attcat", "rollout"), metrics=("sufficiency",), fingerprint="f1", **more):
    """Say who would work on it."""
    settings, explained, tested = {}, {}, {}
    for method in methods:
        facts = {"kind": "explanation", "method": method, "model": fingerprint, "example": "given"}
        facts["params"] = {"absolute": False} if method == "attcat" else {}
        explained[method] = compute_setting_digest(facts)
        settings[explained[method]] = facts
        tested[method] = {}
        for metric in metrics:
            test = {"kind": "test", "of": explained[method], "metric": metric, "example": "all"}
            tested[method][metric] = compute_setting_digest(test)
            settings[tested[method][metric]] = test
    model = {"name": "reviews", "fingerprint": fingerprint, "labels": ["negative", "positive"]}
    software = {"torch": "2.0", "transformers": "5.0", **more}
    return Identity(model, "c0de", settings, explained, tested, software)


def item(row, text=None, label="positive"):
    """Make the example that stands in a row."""
    example = Example(f"review number {row}" if text is None else text, label)
    return Item(
        row, f"line {row + 1}", example, compute_example_id(example), compute_input_id(example)
    )


def window(number=0, size=6, items=None, bad=()):
    """Make a window of `size` examples; the ones before it have as many."""
    own = [item(number * size + place) for place in range(size)] if items is None else items
    return Window(
        number,
        tuple(c[i : i + 2] for c in split_into_chunks(own) for i in range(0, len(c), 2)),
        bad,
    )


def records(who, one, method, error=None):
    """Compute, so to say, the results of one example: numbers that depend on it and on the method alone."""
    seed = int(one.digest[:8], 16) / 2**32
    tokens = None if error else ["[CLS]", *one.example.texts[0].split()]
    setting = who.explained[method]
    explanation = {
        "table": "explanations",
        "key": who.compute_key(setting, one),
        "setting": setting,
        "row": one.row,
        "example": one.digest,
        "id": one.id,
        "label": one.example.label,
        "text": one.example.texts[0],
        "method": method,
        "target": "positive",
        "predicted": "positive",
        "probability": seed,
        "tokens": tokens,
        "special": tokens and [place == 0 for place, _ in enumerate(tokens)],
        "starts": tokens and [None, *(start for start, _ in places(one.example.texts[0]))],
        "ends": tokens and [None, *(end for _, end in places(one.example.texts[0]))],
        "segments": tokens and [0] * len(tokens),
        "ids": tokens and [*range(len(tokens))],
        "words": tokens and [None, *range(len(tokens) - 1)],
        "scores": tokens and [seed / (place + 3) for place, _ in enumerate(tokens)],
        "axioms": tokens and [{"axiom": "completeness", "residual": seed / 7}],
        "forward": 1,
        "backward": 1,
        "dropped": 0,
        "refused": False,
        "error": error,
        "why": error and "It did not work.",
    }
    tests = [
        {
            "table": "metrics",
            "key": who.compute_key(test, one),
            "setting": test,
            "row": one.row,
            "example": one.digest,
            "method": method,
            "metric": metric,
            "value": None if error else seed / 9,
            "null": None if error else seed / 11,
            "part_names": None if error else ["10 %", "50 %"],
            "parts": None if error else [seed, None],
            "null_parts": None if error else [seed, seed / 13],
            "error": error,
            "why": error and "It did not work.",
        }
        for metric, test in who.tested[method].items()
    ]
    return [explanation, *tests]


def places(text):
    """Return where the words of a text begin and end."""
    return [found.span() for found in re.finditer(r"\S+", text)]


def make_task_result(who, own, chunk, methods=None, failing=()):
    """Do a task: all methods on a chunk of a window, of which the rows in `failing` fail."""
    found = [
        record
        for one in own.chunks[chunk]
        for method in methods or who.explained
        for record in records(who, one, method, "not-finite" if one.row in failing else None)
    ]
    tables = build_tables(found)
    return TaskResult(own.number, chunk, tables, 0.5, {"attcat": {"seconds": 0.25}}, "worker 1")


def write_store(out, asked=None, who=None, windows=(0, 1), failing=(), data=DATA, size=6):
    """Write a whole store."""
    who = identity() if who is None else who
    with Store.open_locked(out) as store:
        store.begin(plan() if asked is None else asked, who, data)
        for number in windows:
            complete_window(store, who, window(number, size), failing=failing)
        store.finish()
    return Path(out)


def complete_window(store, who, own, retry=False, failing=(), part=None):
    """Do what is missing of a window, as the loop of a run does, and close it."""
    held = store.find_results(own)
    for number, items in enumerate(own.chunks):
        if part is not None and (own.number + number) % part[1] != part[0] - 1:
            continue
        missing = [
            m for m in who.explained if any(lacks(who, held, one, m, retry) for one in items)
        ]
        if missing:
            store.add_result(make_task_result(who, own, number, missing, failing))
    store.close_window(own)


def lacks(who, held, one, method, retry=False):
    """Say whether a result of an example is missing."""
    settings = [who.explained[method], *who.tested[method].values()]
    return any(
        held.needs_result(one.row, who.compute_key(setting, one), retry) for setting in settings
    )


def contents(folder):
    """Return all files that count, by name: not the log, not what was set aside, not the lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
        and path.relative_to(folder).parts[0] not in ("log.jsonl", "damaged", "lock")
    }


BAD = (SkippedRow(3, "reviews.tsv, line 4", "It has no text."),)
