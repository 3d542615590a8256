"""A masked language model beside the explained model, to draw replacements for removed tokens.

Both models must share one vocabulary.
"""

from dataclasses import replace
from typing import Any

from whence.core.errors import BadTokenizer, NoHead
from whence.models.load import load_model
from whence.models.model import InfillModel, LoadedModel


def with_infill_model(loaded: LoadedModel, what: Any) -> LoadedModel:
    """Return the model with a masked language model of the same vocabulary, loaded or given."""
    candidate = load_model(what, device=loaded.device, dtype=loaded.dtype)
    kind = type(candidate.model)
    # A user's own class may have a masked language modelling head under any name; only a run would tell.
    if kind.__module__.startswith("transformers.") and not kind.__name__.endswith("ForMaskedLM"):
        raise NoHead(
            f"{candidate.name!r} is a {kind.__name__}: it has no masked language modelling head, so nothing can be drawn "
            "from it. Give a model ...ForMaskedLM as mlm."
        )
    # A model object has no tokenizer: its vocabulary is assumed to be the same.
    tokenizer = candidate.tokenizer or loaded.tokenizer
    if tokenizer is None or loaded.tokenizer is None:
        raise BadTokenizer(
            f"{loaded.name!r} has no tokenizer, so nobody knows what the language model {candidate.name!r} would draw. "
            "Give the one that belongs to them: tokenizer=..."
        )
    vocabulary = tokenizer.get_vocab()
    size = max(vocabulary.values()) + 1
    if vocabulary != loaded.tokenizer.get_vocab() or (candidate.vocabulary_size or size) < size:
        raise BadTokenizer(
            f"The language model {candidate.name!r} has another vocabulary than {loaded.name!r}: what one draws, the "
            "other would read as something else. Give a masked language model with the same tokenizer as mlm."
        )
    mask = tokenizer.mask_token_id
    if mask is None:
        raise BadTokenizer(
            f"The tokenizer of the language model {candidate.name!r} has no mask token: there is nothing to fill in. "
            "Give another as mlm."
        )
    # An embedding table may be larger than the vocabulary, not smaller: only ids known to both are drawn.
    known = set(range(loaded.vocabulary_size or size)).difference(tokenizer.all_special_ids)
    infiller = InfillModel(candidate, mask, tuple(sorted(known.intersection(vocabulary.values()))))
    return replace(loaded, infiller=infiller, fillers={**loaded.fillers, "draw": mask})
