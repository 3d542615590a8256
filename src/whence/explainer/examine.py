"""Finding out by trying what can be explained on a model."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.core.errors import WhenceError
from whence.core.failure import is_failure
from whence.explainer.aims.pairing import why_pairs
from whence.explainer.work import unnamed
from whence.methods import method as registry
from whence.models import Loaded, fingerprint

if TYPE_CHECKING:
    from whence.explainer.explainer import Explainer

SHORT = "whence tries every method on this short text"


def examined(explainer: "Explainer", text: Any) -> dict[str, Any]:
    """Return facts about the model, and for each method whether it works on the text and why not."""
    loaded = explainer.loaded
    text, more = sample(loaded, text)
    tried = []
    for name in registry.names():
        try:
            # The text is an example: whether a model knows its words is nothing against the model.
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The tokenizer does not know", UserWarning)
                explainer.explain(text, method=name, params=_few(name, loaded), **more)
            why_not = None
        except WhenceError as error:
            why_not = str(unnamed(error))
        except BaseException as error:  # a report of what fails must not fail itself
            if not is_failure(error):
                raise
            why_not = f"{type(error).__name__}: {error}".splitlines()[0]
        tried.append({"method": name, "works": why_not is None, "why_not": why_not})
    return {"facts": _facts(loaded), "methods": tried}


def sample(loaded: Loaded, text: Any = SHORT, *, held: bool = False) -> tuple[Any, dict[str, Any]]:
    """Return something short to try a model on, as it can read it, and what to ask about it.

    With `held` it is a text that is held against a picture.
    """
    if held:
        return text, {"image": _picture(loaded)}
    if loaded.sees and text is SHORT:
        more = {"labels": ["one thing", "another"]} if loaded.modality == "both" else {}
        return _picture(loaded), more
    if loaded.tokenizer is None or loaded.boxed:
        size = loaded.vocabulary or 8
        ids = [i % size for i in range(1, 6)]
        encoded: dict[str, Any] = {"input_ids": [[*ids, *sorted(loaded.anchors)]]}
        if loaded.boxed:
            encoded["bbox"] = [[[10 * i, 10, 10 * i + 8, 20] for i in range(len(ids))]]
        if loaded.pairs:
            encoded["token_type_ids"] = [[i % 2 for i in range(len(encoded["input_ids"][0]))]]
        return encoded, {}
    return _readable(text, loaded) if isinstance(text, str) else (text, {})


def _readable(text: str, loaded: Loaded) -> tuple[Any, dict[str, Any]]:
    """Return a text as a model of this task can read it, and what to ask about it."""
    if loaded.pairs or loaded.task == "answer" or why_pairs(loaded) is not None:
        return (text, text), {"truncate": True}
    mask = getattr(loaded.tokenizer, "mask_token", None)
    if loaded.task == "mask" and mask is not None and mask not in text:
        return f"{text} {mask}", {}
    return text, {"at": 1} if loaded.task == "tags" else {}


def _picture(loaded: Loaded) -> Any:
    """Return a picture to try methods on: a slope of greys, or pixels of the size that the model says."""
    if loaded.processor is not None:
        return np.linspace(0, 1, 64 * 64 * 3).reshape(64, 64, 3)
    config = getattr(loaded.model.config, "vision_config", loaded.model.config)
    size = getattr(config, "image_size", 224)
    height, width = (size, size) if isinstance(size, int) else size
    channels = getattr(config, "num_channels", 3)
    return {
        "pixel_values": np.linspace(-1, 1, channels * height * width).reshape(
            channels, height, width
        )
    }


def _few(name: str, loaded: Loaded) -> dict[str, Any] | None:
    """Return settings that try a method quickly on a picture, of which patches are many."""
    few = {"lime": {"samples": 16}, "gradient_shap": {"samples": 4}, "smoothgrad": {"samples": 4}}
    return few.get(name) if loaded.sees else None


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
