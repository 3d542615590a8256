"""Finding out by trying what can be explained on a model."""

from typing import TYPE_CHECKING, Any

from whence.core.errors import WhenceError
from whence.explainer.work import unnamed
from whence.methods import method as registry
from whence.models import Loaded, fingerprint

if TYPE_CHECKING:
    from whence.explainer.explainer import Explainer

SHORT = "whence tries every method on this short text"


def examined(explainer: "Explainer", text: Any) -> dict[str, Any]:
    """Return facts about the model, and for each method whether it works on the text and why not."""
    loaded = explainer.loaded
    if loaded.tokenizer is None:
        size = loaded.vocabulary or 8
        ids = [i % size for i in range(1, 6)]
        text = {"input_ids": [[*ids, *sorted(loaded.anchors)]]}
        if loaded.pairs:
            text["token_type_ids"] = [[i % 2 for i in range(len(text["input_ids"][0]))]]
    elif loaded.pairs and isinstance(text, str):
        text = (text, text)
    tried = []
    for name in registry.names():
        try:
            explainer.explain(text, method=name)
            why_not = None
        except WhenceError as error:
            why_not = str(unnamed(error))
        except Exception as error:  # a report of what fails must not fail itself
            why_not = f"{type(error).__name__}: {error}".splitlines()[0]
        tried.append({"method": name, "works": why_not is None, "why_not": why_not})
    return {"facts": _facts(loaded), "methods": tried}


def _facts(loaded: Loaded) -> dict[str, Any]:
    tokenizer = "none" if loaded.tokenizer is None else type(loaded.tokenizer).__name__
    return {
        "name": loaded.name,
        "class": type(loaded.model).__name__,
        "labels": ", ".join(loaded.labels) or "none",
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "device": str(loaded.device),
        "longest input": loaded.max_length or "no bound",
        "tokenizer": tokenizer,
        "parameters": f"{sum(p.numel() for p in loaded.model.parameters()):,}",
        "fingerprint": fingerprint(loaded.model),
    }
