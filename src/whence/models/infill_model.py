"""A masked language model beside the model that is explained, to put words where some were removed."""

from dataclasses import replace
from typing import Any

from whence.core.errors import BadTokenizer, NoHead
from whence.models.load import load
from whence.models.loaded import Infiller, Loaded


def with_infiller(loaded: Loaded, what: Any) -> Loaded:
    """Load a masked language model for `loaded`, or take a model object; both must mean the same by every id."""
    found = load(what, device=loaded.device, dtype=loaded.dtype)
    kind = type(found.model)
    # As for classifiers: a class of one's own may have a head under any name, which shows when it is run.
    if kind.__module__.startswith("transformers.") and not kind.__name__.endswith("ForMaskedLM"):
        raise NoHead(
            f"{found.name!r} is a {kind.__name__}: it has no masked language modelling head, so nothing can be drawn "
            "from it. Give a model ...ForMaskedLM as mlm."
        )
    # A model object comes without a tokenizer: its vocabulary is then taken to be the same.
    tokenizer = found.tokenizer or loaded.tokenizer
    if tokenizer is None or loaded.tokenizer is None:
        raise BadTokenizer(
            f"{loaded.name!r} has no tokenizer, so nobody knows what the language model {found.name!r} would draw. "
            "Give the one that belongs to them: tokenizer=..."
        )
    vocabulary = tokenizer.get_vocab()
    size = max(vocabulary.values()) + 1
    if vocabulary != loaded.tokenizer.get_vocab() or (found.vocabulary or size) < size:
        raise BadTokenizer(
            f"The language model {found.name!r} has another vocabulary than {loaded.name!r}: what one draws, the "
            "other would read as something else. Give a masked language model with the same tokenizer as mlm."
        )
    mask = tokenizer.mask_token_id
    if mask is None:
        raise BadTokenizer(
            f"The tokenizer of the language model {found.name!r} has no mask token: there is nothing to fill in. "
            "Give another as mlm."
        )
    # A table may be larger than its vocabulary, and must not be smaller: only what has a meaning to both is drawn.
    known = set(range(loaded.vocabulary or size)).difference(tokenizer.all_special_ids)
    infiller = Infiller(found, mask, tuple(sorted(known.intersection(vocabulary.values()))))
    return replace(loaded, infiller=infiller, fillers={**loaded.fillers, "draw": mask})
