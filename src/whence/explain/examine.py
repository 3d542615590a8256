"""Trials on a short sample: which default method works on a model, why others fail, and facts for lists of models.

Only a run shows what a model lacks, so a default method is tried once before it is used.
"""

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.core.errors import NoRule, NotCapturable, WhenceError, is_failure
from whence.explain.inputs import can_take_pairs
from whence.explain.inside import PATCHES_NOTE
from whence.explain.request import choose_default_method
from whence.explain.tasks import find_training_evidence
from whence.explain.tasks.zero_shot import find_entailment_label
from whence.methods import is_trace_method
from whence.methods import method as registry
from whence.models.fingerprint import compute_fingerprint
from whence.models.model import LoadedModel

if TYPE_CHECKING:
    from whence.explain.explainer import Explainer

SAMPLE_TEXT = "whence tries every method on this short text"
# They need only gradients of the embeddings, or forward passes, which nearly every model offers.
_FALLBACK_METHODS = ("grad_x_input", "leave_one_out")
_TWO_TOWERS_NOTE = (
    "A text and a picture go through a model each, and meet at the end: how information flowed there is not drawn. "
    "The scores show what of the one speaks for the other."
)
_GREY_IMAGE = np.full((32, 32, 3), 128, dtype=np.uint8)


class FallbackWarning(UserWarning):
    """Warning that the default method does not work on a model, and that another one is used."""


@dataclass
class DefaultMethods:
    """The default methods of a model, for texts and for pictures, each tried once on a short sample."""

    explainer: "Explainer"
    # For texts (False) and pictures (True): the method, and the one that is preferred if it works on the model.
    known: dict[bool, str] = field(default_factory=dict)
    preferred: dict[bool, str] = field(default_factory=dict)
    # Why a method explains in place of the preferred one.
    fallback_reasons: dict[str, str] = field(default_factory=dict)

    def find(self, held: bool) -> str:
        """Return the default method; `held`: for a text that is held against a picture."""
        picture = self.explainer.loaded.takes_images and not held
        if picture not in self.known:
            causal = not picture and _is_causal(self.explainer, held)
            self.preferred[picture] = choose_default_method(self.explainer.loaded, picture, causal)
            self.known[picture] = self._try_methods(self.preferred[picture], held)
        return self.known[picture]

    def _try_methods(self, preferred: str, held: bool) -> str:
        """Return the preferred method, or, with a warning, a fallback that works on this model."""
        loaded = self.explainer.loaded
        if held and loaded.takes_images:  # the reference image is unknown here
            return preferred
        sample, more = build_sample_input(loaded)
        why = ""
        for name in (preferred, *(other for other in _FALLBACK_METHODS if other != preferred)):
            try:
                # Query methods work on every model that runs.
                if is_trace_method(registry.get(name)):
                    _explain_quietly(self.explainer, sample, name, more)
            except (NotCapturable, NoRule) as error:
                why = why or str(strip_method_name(error)).partition(" Use ")[0]
                continue
            except Exception:  # any other error will be raised when the model explains an input
                return preferred
            if name != preferred:
                self.fallback_reasons[name] = (
                    f"{preferred}, the default method, does not work on this model, and {name} explains in its place. "
                    f"{why}"
                )
                warnings.warn(self.fallback_reasons[name], FallbackWarning, stacklevel=2)
            return name
        return preferred


def _is_causal(explainer: "Explainer", held: bool) -> bool:
    """Return whether tokens attend only to earlier tokens; every generating model counts as causal.

    Configurations of classifiers do not tell, so the attention maps of a short sample are looked at.
    """
    if explainer.loaded.task in ("next", "sequence"):
        return True
    sample, more = build_sample_input(explainer.loaded, held=held and explainer.loaded.takes_images)
    try:
        trace = explainer.trace(sample, needs=("attention",), **{**more, "truncate": True})
        return trace.is_causal()
    except Exception:  # the error will be raised when the model explains an input
        return False


def _explain_quietly(explainer: "Explainer", sample: Any, name: str, more: dict[str, Any]) -> None:
    """Explain a sample without warnings about its words, which are no fault of the model."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The tokenizer does not know", UserWarning)
        explainer.explain(sample, method=name, **more)


def strip_method_name(error: WhenceError) -> WhenceError:
    """Return an error without the method name, for messages that already show the name."""
    cause = error.__cause__
    return cause if isinstance(cause, WhenceError) else error


def try_methods(explainer: "Explainer", text: Any = SAMPLE_TEXT) -> dict[str, Any]:
    """Return facts about the model, and for each method whether it works on the text and why not."""
    loaded = explainer.loaded
    sample, more = build_sample_input(loaded, text)
    # Fewer samples of a picture, which has many patches.
    few = {"lime": {"samples": 16}, "gradient_shap": {"samples": 4}, "smoothgrad": {"samples": 4}}
    rows = []
    for name in registry.names():
        why_not, params = None, few.get(name) if loaded.takes_images else None
        try:
            _explain_quietly(explainer, sample, name, {**more, "params": params})
        except WhenceError as error:
            why_not = str(strip_method_name(error))
        except BaseException as error:  # a failing method is a row of the report, not its end
            if not is_failure(error):
                raise
            why_not = f"{type(error).__name__}: {error}".splitlines()[0]
        rows.append({"method": name, "works": why_not is None, "why_not": why_not})
    facts = {
        "name": loaded.name,
        "class": type(loaded.model).__name__,
        "labels": ", ".join(loaded.labels) or "none",
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "device": str(loaded.device),
        "longest input": loaded.max_length or "no bound",
        "tokenizer": "none" if loaded.tokenizer is None else type(loaded.tokenizer).__name__,
        "parameters": f"{sum(p.numel() for p in loaded.model.parameters()):,}",
        "fingerprint": compute_fingerprint(loaded.model),
    }
    return {"facts": facts, "methods": rows}


def build_sample_input(
    loaded: LoadedModel, text: Any = SAMPLE_TEXT, *, held: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Return a short sample input for a model, and the keywords to explain it with.

    With `held` it is a text to be compared with a reference image.
    """
    if held:
        return text, {"image": _build_sample_image(loaded)}
    if loaded.takes_images and text is SAMPLE_TEXT:
        more = {"labels": ["one thing", "another"]} if loaded.modality == "both" else {}
        return _build_sample_image(loaded), more
    if loaded.tokenizer is None or loaded.takes_boxes:
        size = loaded.vocabulary_size or 8
        ids = [i % size for i in range(1, 6)]
        encoded: dict[str, Any] = {"input_ids": [[*ids, *sorted(loaded.anchors)]]}
        if loaded.takes_boxes:
            encoded["bbox"] = [[[10 * i, 10, 10 * i + 8, 20] for i in range(len(ids))]]
        if loaded.needs_pair:
            encoded["token_type_ids"] = [[i % 2 for i in range(len(encoded["input_ids"][0]))]]
        return encoded, {}
    if not isinstance(text, str):
        return text, {}
    if reads_pairs(loaded):
        return (text, text), {"truncate": True}
    mask = getattr(loaded.tokenizer, "mask_token", None)
    if loaded.task == "mask" and mask is not None and mask not in text:
        return f"{text} {mask}", {}
    return text, {"at": 1} if loaded.task == "tags" else {}


def reads_pairs(loaded: LoadedModel) -> bool:
    """Return whether the model is made for pairs of texts, as far as can be known."""
    return (
        loaded.needs_pair
        or loaded.task == "answer"
        or find_training_evidence(loaded, pairs=True) is not None
    )


def _build_sample_image(loaded: LoadedModel) -> Any:
    """Return a sample image: a grey gradient, or pixel values of the size in the configuration."""
    if loaded.processor is not None:
        return np.linspace(0, 1, 64 * 64 * 3).reshape(64, 64, 3)
    config = getattr(loaded.model.config, "vision_config", loaded.model.config)
    size = getattr(config, "image_size", 224)
    height, width = (size, size) if isinstance(size, int) else size
    channels = getattr(config, "num_channels", 3)
    pixels = np.linspace(-1, 1, channels * height * width)
    return {"pixel_values": pixels.reshape(channels, height, width)}


def describe_model_options(explainer: "Explainer") -> dict[str, Any]:
    """Return the facts of a model for a list of models: labels, task, modality, limits."""
    loaded = explainer.loaded
    mask = getattr(loaded.tokenizer, "mask_token", None)
    return {
        "kind": type(loaded.model).__name__,
        "labels": list(loaded.labels),
        "task": loaded.task,
        "modality": loaded.modality,
        "mask": mask if loaded.task == "mask" else None,
        "zero_shot": find_entailment_label(loaded) is not None,
        "method": explainer.default_method(),
        "draws": loaded.takes_images and loaded.name == "shapes",
        "pairs": loaded.needs_pair or loaded.task == "answer",
        "takes_pairs": not loaded.takes_images and can_take_pairs(loaded),
        "reads_pairs": find_training_evidence(loaded, pairs=True) is not None,
        "longest": loaded.max_length,
        **_find_attention_size(explainer),
    }


def _find_attention_size(explainer: "Explainer") -> dict[str, Any]:
    """Return the numbers of layers and heads by a test run, or the reason why there is no attention."""
    nothing: dict[str, Any] = {"layers": None, "heads": None}
    loaded = explainer.loaded
    if loaded.modality == "both":
        return {**nothing, "attention": _TWO_TOWERS_NOTE}
    probe: Any = _GREY_IMAGE if loaded.takes_images else "whence looks inside"
    if not loaded.takes_images and reads_pairs(loaded):
        probe = (probe, probe)
    try:
        # A tagger is asked about token 1, as it would find no entity in the probe text.
        inside = explainer.inside(probe, truncate=True, at=1 if loaded.task == "tags" else None)
        inside.attention()
        why_not = PATCHES_NOTE if loaded.takes_images else None
        return {"layers": inside.layers, "heads": inside.heads, "attention": why_not}
    except WhenceError as error:
        return {**nothing, "attention": str(error)}
