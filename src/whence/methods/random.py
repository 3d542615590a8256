"""Random scores from a seeded generator: the null that every real method must beat."""

import torch

from whence.core.seed import build_generator
from whence.data.batches import Batch
from whence.methods import Scores, method
from whence.tracing.ask import ModelQuery


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
def random(ask: ModelQuery, batch: Batch, *, seed: int = 0) -> Scores:
    """Draw scores that know nothing of the model; the same input and seed give the same scores."""
    base = ask.base()
    drawn = [
        build_generator("random", seed, item.key).standard_normal(len(item)) for item in batch.items
    ]
    return batch.pad_values([torch.as_tensor(own).to(base) for own in drawn])
