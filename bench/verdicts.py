"""Simulated error rates of an audit's verdict with few examples: the reason for MIN_EXAMPLES in verdict.py.

    python bench/verdicts.py

Predictions either always change or never do, which is the worst case for a bootstrap; a share of them changes. A
verdict "fails" where the whole interval of the mean lies below the threshold of 0.1.
"""

import json
from pathlib import Path

import numpy as np

from whence.core.seed import build_generator
from whence.stats.intervals import bootstrap
from whence.studies.audit.experiments import experiment

RESULTS = Path(__file__).parent / "results" / "verdicts.jsonl"
DRAWS = 1000


def main() -> None:
    """Simulate, print and store the rates."""
    threshold = float(experiment.get("replacement").facts["threshold"])
    rows = []
    for share in (threshold, 2 * threshold):
        for n in (5, 10, 20, 30, 60):
            draw = build_generator("verdicts", n, int(100 * share))
            wrong = 0
            for number in range(DRAWS):
                values = (draw.random(n) < share).astype(np.float64)
                interval = bootstrap(np.sort(values), ("verdicts", number), draws=2000)
                wrong += interval.high is not None and interval.high < threshold
            rows.append({"share": share, "threshold": threshold, "n": n, "draws": DRAWS})
            rows[-1]["fails"] = wrong / DRAWS
            print(f"a share of {share:g} changes, {n:2} examples: fails {wrong / DRAWS:.1%}")
    RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
