"""Random scores: the bar that every explanation must clear."""

import torch

from whence.capture import Ask
from whence.core.seed import generator
from whence.data import Batch
from whence.methods import Scores, method


@method(
    "random",
    family="baseline",
    needs=set(),
    signed=True,
    unit="relative",
    cite="the null model",
    formula="s_j ~ N(0, 1), drawn from a generator keyed by the tokens and the seed",
    cost="none beyond the prediction's 1 forward",
    misleads_when="it always does: anything that does not beat it explains nothing",
)
def random(ask: Ask, batch: Batch, *, seed: int = 0) -> Scores:
    """Draw scores that know nothing of the model; the same input and seed give the same scores."""
    base = ask.base()
    drawn = [generator("random", seed, item.key).standard_normal(len(item)) for item in batch.items]
    return batch.spread([torch.as_tensor(own).to(base) for own in drawn])
