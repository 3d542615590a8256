"""Where a model looks its tokens up."""

from typing import Any


def token_table(model: Any) -> Any:
    """Return what turns token ids into vectors: the model's, or that of the part of it that reads texts.

    Raises NotImplementedError, as transformers does, where nothing says so.
    """
    try:
        if not hasattr(model, "get_input_embeddings"):  # a module of one's own around a model
            raise NotImplementedError
        return model.get_input_embeddings()
    except NotImplementedError:
        parts = [part for part in model.children() if hasattr(part, "get_input_embeddings")]
        for part in parts:
            table = _own(part)
            if getattr(table, "weight", None) is not None and table.weight.dim() == 2:
                return table
        raise


def _own(part: Any) -> Any:
    try:
        return part.get_input_embeddings()
    except NotImplementedError:
        return None
