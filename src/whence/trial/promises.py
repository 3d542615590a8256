"""What an explanation's scores should add up to, from the residual that it came with."""

import numpy as np

from whence.trial.trial import Trial


def promised(trial: Trial, row: int, residual: float) -> float:
    """Return what all scores, of special tokens too, should add up to; 0 where rounding leaves no more of it."""
    scores = trial.scores[row]
    total = float(scores.sum()) - residual
    # Sums in float32 are good to about 1e-7 of the sizes of what is added; what is less than some of that is nothing.
    return total if abs(total) > 1e-6 * float(np.abs(scores).sum()) else 0.0
