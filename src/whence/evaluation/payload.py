"""What an evaluation says: of numbers that were found just now, or that a run has stored."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.evaluation.agreement import Alike
from whence.evaluation.cost import costs
from whence.evaluation.evaluation import VERSION
from whence.evaluation.judge import judged
from whence.evaluation.notes import Notes
from whence.report.table.failure import failure


def payload(
    notes: Notes,
    alike: Alike,
    *,
    methods: Mapping[str, Mapping[str, Any]],
    origin: Mapping[str, Any],
    setting: Mapping[str, Any],
    digests: Sequence[str],
    data: Mapping[str, Any],
    seed: int,
    calls: Mapping[str, int] | None,
    seconds: float | None,
) -> dict[str, Any]:
    """Judge what was noted, and return the documented JSON object.

    `methods`: their parameters, in the order of the notes. `origin`: model and provenance. `digests`: of all
    examples, also of those that could not be explained (whence.data.sets.digest); examples are put in order by them,
    because the same ones in another order are the same data set. `data`: what the data set is called, and what was
    drawn of it.
    """
    order = sorted(range(len(digests)), key=lambda i: digests[i])
    found = {measure.name: judged(notes, measure, order, seed) for measure in notes.measures}
    told = {
        "version": VERSION,
        "kind": "evaluation",
        **origin,
        "setting": {**setting, "seed": seed},
        "data": dict(data),
        "examples": {
            "given": len(digests),
            "explained": len(notes),
            "different": len(set(digests)),
            "cut": len(notes.cut),
            "why_not": notes.refused.listed(),
            "warnings": [
                {"message": message, "count": len(of)} for message, of in notes.warned.items()
            ],
        },
        "methods": [
            {
                "method": name,
                "params": dict(params),
                **costs(notes, notes.methods.index(name), order, seed),
                "why_not": notes.failures[name].listed(),
            }
            for name, params in methods.items()
        ],
        "metrics": [
            {**measure.facts(), **found[measure.name].facts()} for measure in notes.measures
        ],
        "cells": [cell for judgement in found.values() for cell in judgement.cells],
        "pairs": [pair for judgement in found.values() for pair in judgement.pairs],
        "agreement": alike.matrices(order, seed),
        "calls": calls,
        "seconds": seconds,
    }
    return {**told, "failure": failure(told)}
