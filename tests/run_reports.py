"""Small real runs for tests of run reports, and report payloads made by hand that hold every case."""

import copy
from dataclasses import replace
from pathlib import Path

from tests import audit_payloads
from whence.data.dataset import match_label_names, open_dataset
from whence.runs.chunks import iterate_windows
from whence.runs.plan import Execution, Plan
from whence.runs.records import build_tables
from whence.runs.results import Run
from whence.runs.store import Store
from whence.runs.task import Task
from whence.runs.worker import Worker

# In the order of their lengths, so that a run puts them into batches as `evaluate` does, to the bit.
ROWS = [
    ("a gripping film", "1"),
    ("a dull and slow film", "0"),
    ("not a bad film at all", "1"),
    ("the plot is thin and slow", "0"),
    ("a warm and funny story to see", "1"),
    ("the jokes are worse than the plot", "0"),
    ("beautifully acted and never too long", "1"),
    ("far too long, and the actors are tired", "0"),
]
METHODS = ("attcat", "rollout", "gradient")
METRICS = ("comprehensiveness", "sufficiency", "loo_correlation")


def write_dataset(folder, rows=ROWS, name="reviews.tsv"):
    """Write a data set."""
    path = Path(folder) / name
    path.write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    return path


def make_run(out, data, explainer, finish=True, spoil=None, **asked):
    """Do a run on a model that is loaded already. `spoil` may change what the worker gives."""
    plan = Plan(
        **{"model": "reviews", "data": str(data), "methods": METHODS, "metrics": METRICS, **asked}
    )
    worker, rows = Worker(plan, Execution(), explainer), open_dataset(str(data))
    with Store.open_locked(out) as store:
        labels = [row.example.label for row in rows if row.example.label is not None]
        match = match_label_names(labels, tuple(explainer.labels))
        store.begin(
            plan,
            worker.identity,
            {**rows.facts(), "labels": None if match is None else match.to_dict()},
        )
        store.log_event("start", {"software": worker.identity.software})
        for window in iterate_windows(rows):
            store.find_results(window)
            for chunk, items in enumerate(window.chunks):
                done = worker.do(Task(window.number, chunk, items, plan.methods))
                store.add_result(done if spoil is None else with_records(done, spoil))
            if finish:
                store.close_window(window)
        if finish:
            store.finish()
    return Run(out)


def with_records(done, change):
    """Return a task's result with other records."""
    records = [
        {"table": name, **record}
        for name, table in done.tables.items()
        for record in table.to_pylist()
    ]
    return replace(done, tables=build_tables(change(records)))


EVIL = "<img src=x onerror=alert(1)>"
LEFT_TO_RIGHT = "‮abc"


def interval(mean, low=None, high=None, n=40):
    return {"mean": mean, "low": low, "high": high, "n": n}


def explanation_payload(
    method="attcat", words=("a", "dull", "film"), scores=(0.1, -0.9, 0.2), label="negative"
):
    """Return the payload of an explanation, as a run keeps it."""
    text = " ".join(words)
    tokens, spans, at = [_token("[CLS]", None)], [], 0
    for place, word in enumerate(words):
        tokens.append(_token(word, at))
        spans.append(
            {"text": word, "start": at, "end": at + len(word), "segment": 0, "tokens": [place + 1]}
        )
        at += len(word) + 1
    return {
        "version": 1,
        "model": {"name": "reviews", "class": "BertForSequenceClassification"},
        "input": {"text": text, "pair": None, "dropped": 0},
        "tokens": tokens,
        "words": spans,
        "prediction": {
            "label": label,
            "index": 0,
            "probability": 0.93,
            "probabilities": {label: 0.93},
            "logits": [],
        },
        "target": {"label": label, "index": 0, "against": None, "of": "logit"},
        "read": [],
        "explanations": [
            {
                "method": method,
                "params": {},
                "signed": True,
                "scores": [0.0, *scores],
                "word_scores": list(scores),
                "axioms": {},
                "passes": {"forward": 1, "backward": 1},
                "seconds": None,
                "dtype": "float64",
            }
        ],
        "provenance": {},
    }


def _token(text, start):
    end = None if start is None else start + len(text)
    return {
        "text": text,
        "start": start,
        "end": end,
        "segment": 0,
        "special": start is None,
        "id": 7,
    }


def extreme(which="best", method="attcat", **facts):
    return {
        "which": which,
        "method": method,
        "metric": "comprehensiveness",
        "value": 0.81,
        "null": 0.22,
        "direction": "higher",
        "row": 3,
        "id": "line 5",
        "label": "0",
        "says": [],
        "explained": explanation_payload(method),
        **facts,
    }


def report_payload(evaluation=None, **changes):
    """Return the payload of a report; `evaluation` is one of whence.evaluate."""
    found = {
        "version": 1,
        "kind": "run",
        "name": "out",
        "state": "complete",
        "examples": 40,
        "total": 40,
        "advice": "Use attcat: on 40 examples it beats random explanations.",
        "damage": [],
        "model": {
            "name": "reviews",
            "revision": None,
            "class": "BertForSequenceClassification",
            "fingerprint": "f00d",
            "labels": ["negative", "positive"],
            "dtype": "float32",
            "tokenizer": "beef",
        },
        "data": {
            "name": "reviews.tsv",
            "kind": "tsv",
            "columns": {"text": "sentence", "label": "label"},
            "guessed": ["text"],
            "bad": {
                "count": 2,
                "first": [{"row": 7, "where": "line 9", "why": "It has 1 field, not 2."}],
            },
        },
        "setting": {
            "remove": "mask",
            "unit": "token",
            "rankings": 5,
            "seed": 0,
            "target": None,
            "truncate": True,
        },
        "methods": ["attcat", "rollout"],
        "metrics": ["comprehensiveness", "sufficiency"],
        "predictions": {
            "classes": {"negative": 22, "positive": 18},
            "accuracy": interval(0.925, 0.825, 1.0),
            "majority": 0.55,
        },
        "evaluation": evaluation,
        "plots": [
            {
                "kind": "histogram",
                "title": "Gain over random explanations by comprehensiveness",
                "x": "gain",
                "edges": [-0.5, 0.0, 0.5, 1.0],
                "threshold": 0.0,
                "series": [
                    {"name": "attcat", "counts": [4, 16, 20], "n": 40},
                    {"name": "rollout", "counts": [20, 18, 2], "n": 40},
                ],
            }
        ],
        "extremes": [
            extreme(),
            extreme("worst", value=-0.1),
            extreme("disagreed", says=["By Kendall's tau-b -0.4."]),
        ],
        "failures": [
            {
                "method": "rollout",
                "error": "not-finite",
                "why": "The scores are not finite.",
                "count": 1,
                "first": ["line 12"],
            }
        ],
        "audit": audit_payloads.audit(),
        "not_audited": [{"name": "adversarial", "why": "It was not made yet."}],
        "provenance": {"whence": "0.1", "torch": "2.13", "code": "c0de"},
        "settings": {
            "00112233aabbccdd": {
                "kind": "explanation",
                "method": "attcat",
                "params": {},
                "code": "c0de",
            },
            "99112233aabbccdd": {
                "kind": "test",
                "method": "attcat",
                "metric": "comprehensiveness",
                "seed": 0,
            },
        },
        "sessions": [
            {
                "began": "2026-01-01 10:00",
                "seconds": 12.5,
                "workers": "2 processes",
                "tasks": 3,
                "with": {"device": "cpu"},
            }
        ],
        "reproduce": {
            "plan": 'model = "reviews"\ndata = "reviews.tsv"\n',
            "command": "whence run --model reviews --data reviews.tsv --out out",
        },
    }
    return {**found, **changes}


def with_hostile_texts(payload, evil=EVIL):
    """Return a payload with something evil in every text that comes from outside."""

    def spoiled(value, key=""):
        if isinstance(value, dict):
            return {name: spoiled(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [spoiled(one, key) for one in value]
        if not isinstance(value, str) or key in _KEPT:
            return value
        # Names by which parts of the report refer to each other stay different ones.
        return f"{evil} {value}" if key in ("metric", "method", "a", "b") else evil

    return spoiled(copy.deepcopy(payload))


_KEPT = {"kind", "state", "which", "direction", "verdict", "answer", "of"}
