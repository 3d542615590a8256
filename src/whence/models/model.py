"""`LoadedModel`: a model with its task, labels, limits and modality, from its configuration and its tokenizer."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Literal

import torch

from whence.core.errors import BadTokenizer, NoHead
from whence.core.files import format_public_name
from whence.core.types import Task
from whence.models.facts import find_token_embeddings, iterate_hooks
from whence.models.model_files import BUILTIN

Modality = Literal["text", "picture", "both"]  # both: texts and images compared with each other


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to be explained, with facts from its class, its configuration and its tokenizer."""

    model: Any  # a transformers.PreTrainedModel
    tokenizer: Any | None
    name: str
    revision: str | None
    task: Task
    is_classifier: bool  # the outputs are labels of the whole input: one row of logits
    labels: tuple[str, ...]
    max_length: int | None
    pad_id: int | None  # the id of padding
    pad_ids: frozenset[int]  # all ids that count as padding: the model's and the tokenizer's
    # Replacement tokens: mask, pad, unk, and draw, a mask that the infill model fills.
    fillers: Mapping[str, int]
    anchors: frozenset[int]  # ids that the model's head looks for, and must not be removed
    modality: Modality
    takes_images: bool  # alone or with texts
    takes_boxes: bool  # of tokens on a page
    forward_keywords: frozenset[str] | None  # the keywords of its forward; None if it takes any
    input_refusal: str | None  # why no input can be explained: it takes neither texts nor images
    needs_pair: bool  # an input must be a pair of texts, as for our attentive models with a query
    needs_single_text: bool  # an input must be a single text, as for those without a query
    infiller: "InfillModel | None" = None
    processor: Any | None = None  # the image processor
    # Whether max_length is the tokenizer's, and the model would take more.
    cut_by_tokenizer: bool = False
    checkpoint: bool = False  # gradient checkpointing: blocks run again, for less memory

    def check_classifier(self) -> None:
        """Refuse a model that does not classify whole inputs."""
        if not self.is_classifier:
            raise NoHead(
                f"{self.name!r} is a {type(self.model).__name__}: it does not classify whole inputs, so that they "
                "have no predicted label. Give a model that classifies."
            )

    @cached_property
    def length_limit(self) -> str:
        """The length limit and whether model or tokenizer sets it, as a clause of a sentence."""
        if self.cut_by_tokenizer:
            return f"its tokenizer allows at most {self.max_length} (model_max_length; the model itself takes more)"
        return f"the model takes at most {self.max_length}"

    @property
    def device(self) -> torch.device:
        """The device of the first weights, or the one that offloaded weights are brought to."""
        device: torch.device = next(self.model.parameters()).device
        if device.type != "meta":
            return device
        hooks = (hook for part in self.model.modules() for hook in iterate_hooks(part))
        devices = (getattr(hook, "execution_device", None) for hook in hooks)
        return torch.device(next((place for place in devices if place is not None), device))

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the computation."""
        dtype: torch.dtype = next(
            p.dtype for p in self.model.parameters() if p.dtype.is_floating_point
        )
        return dtype

    @property
    def vocabulary_size(self) -> int | None:
        """The number of token embeddings."""
        try:
            weight = getattr(find_token_embeddings(self.model), "weight", None)
        except NotImplementedError:  # raised by transformers if there are none
            return None
        return None if weight is None else int(weight.shape[0])

    @cached_property
    def bytes_per_token(self) -> int:
        """An upper bound of the bytes that explaining a token takes, from the sizes of all weight matrices."""
        matrices = (w for w in self.model.parameters() if w.dim() == 2 and len(w) < 2**15)
        config = self.model.config
        layers = getattr(config, "num_hidden_layers", 1) or 1
        repeated = layers if getattr(config, "num_hidden_groups", 0) else 1  # ALBERT
        width = sum(sum(weight.shape) for weight in matrices)
        return int(8 * width * repeated * max(4, self.dtype.itemsize))

    def check_head(self) -> None:
        """Refuse a model without a head, or one that takes neither texts nor images."""
        if self.input_refusal is not None:
            raise NoHead(self.input_refusal)
        if self.task == "none":
            raise NoHead(
                f"{self.name!r} is a {type(self.model).__name__}: it has no head that whence knows, so "
                "there is no prediction to explain. Load a model for a task: ...ForSequenceClassification, "
                "...ForQuestionAnswering, ...ForTokenClassification, ...ForMaskedLM, ...ForCausalLM, "
                "...ForConditionalGeneration, ...ForImageClassification, or CLIPModel."
            )


@dataclass(frozen=True)
class InfillModel:
    """A masked language model that shares the vocabulary of an explained model."""

    loaded: LoadedModel
    mask_id: int
    words: tuple[int, ...]  # the ids that may be drawn, without special tokens


# A tokenizer without its vocabulary file knows its special tokens only. Embedding tables are often padded,
# most of all that of ByT5, which has 384 rows for 259 tokens.
_MIN_VOCABULARY_SHARE = 0.25


def build_loaded_model(
    model: Any, tokenizer: Any, name: str, revision: str | None, processor: Any = None
) -> LoadedModel:
    """Build a `LoadedModel`; refuse a tokenizer with less than a quarter of the model's tokens."""
    # In results: no local path, and never a built-in name for another model.
    name = name if name in BUILTIN else format_public_name(name, tuple(BUILTIN))
    config, takes = model.config, inspect.signature(model.forward).parameters
    modality, obstacle = inspect_inputs(model)
    labels, task = _detect_task(model, obstacle is None)
    # An image-text model has a configuration for each part.
    texts = getattr(config, "text_config", None) or config
    ids = [getattr(owner, "pad_token_id", None) for owner in (config, texts, tokenizer)]
    pads = [identity for identity in ids if isinstance(identity, int) and identity >= 0]
    kinds = ("mask", "pad", "unk")
    known = {kind: getattr(tokenizer, f"{kind}_token_id", None) for kind in kinds}
    fillers = {kind: identity for kind, identity in known.items() if identity is not None}
    if pads:
        fillers.setdefault("pad", pads[0])
    if modality != "text":
        # Patches are covered, not replaced by a token: only the names count, the ids are unused.
        own = fillers if modality == "both" else {}
        fillers = {**own, **dict.fromkeys(("black", "mean", "blur"), 0)}
    # BART and T5 classifiers read at the end-of-sequence token and fail without one.
    end = getattr(config, "eos_token_id", None)
    reads_end = config.is_encoder_decoder and task != "sequence"
    if task == "similarity":
        # CLIP also reads a text at its end token. Old configurations name another one than the tokenizer.
        reads_end = True
        end = getattr(tokenizer, "eos_token_id", None) or config.text_config.eos_token_id
    longest, by_tokenizer = _find_max_length(model, texts, tokenizer)
    attentive, refusal = config.model_type == "attentive", None
    if modality == "text" and obstacle is not None:
        refusal = f"{name!r} is a {type(model).__name__}: {obstacle}. Load a model that takes one of these alone."
    loaded = LoadedModel(
        model,
        tokenizer,
        name,
        revision,
        task,
        task in ("single_label", "multi_label", "regression"),
        labels,
        longest,
        pads[0] if pads else None,
        frozenset(pads),
        fillers,
        frozenset([end] if isinstance(end, int) and reads_end else []),
        modality,
        takes_images=modality != "text",
        takes_boxes="bbox" in takes,
        forward_keywords=frozenset(takes) if _INPUTS & takes.keys() else None,
        input_refusal=refusal,
        needs_pair=bool(attentive and config.query),
        needs_single_text=bool(attentive and not config.query),
        processor=processor,
        cut_by_tokenizer=by_tokenizer,
    )
    rows = loaded.vocabulary_size
    if tokenizer is not None and len(tokenizer) < _MIN_VOCABULARY_SHARE * (rows or 0):
        raise BadTokenizer(
            f"The tokenizer of {name!r} knows {len(tokenizer):,} tokens, and the model has embeddings of "
            f"{rows:,}: its vocabulary is missing (tokenizer.json, vocab.txt, tokenizer.model), and every other word "
            "would be explained as unknown. Copy it from the model that this one was made from, give the right one with "
            "tokenizer=..., or remove the tokenizer's files to explain encoded inputs."
        )
    return loaded


def inspect_inputs(model: Any) -> tuple[Modality, str | None]:
    """Return what a model takes, and why a text is not enough for it: it takes no token ids, or requires more.

    A generating model that takes pictures as well counts as a text model: the text is explained.
    """
    takes = inspect.signature(model.forward).parameters
    modality: Modality = "text"
    if "pixel_values" in takes and "input_ids" not in takes:
        modality = "picture"
    elif "pixel_values" in takes and "bbox" not in takes:
        modality = "text" if type(model).__name__.endswith(_GENERATOR_NAMES) else "both"
    inputs = _INPUTS & takes.keys()
    if not inputs:  # forward(**inputs) takes any keyword
        kinds = {parameter.kind for parameter in takes.values()}
        enough = inspect.Parameter.VAR_KEYWORD in kinds
    else:
        needs = {one for one in inputs if takes[one].default is inspect.Parameter.empty}
        enough = "input_ids" in inputs and needs <= {"input_ids"}
    if enough:
        return modality, None
    own = next((own for own in _OTHER_INPUTS if own in takes), next(iter(takes), "nothing"))
    obstacle = f"its input is {own!r}, and whence explains texts and pictures"
    if "input_ids" in takes:
        obstacle = f"it needs {own!r} beside a text, and whence explains a text or a picture alone"
    return modality, obstacle


# Inputs other than token ids: pictures, sound, time series.
_OTHER_INPUTS = (
    *("pixel_values", "pixel_values_videos", "flattened_patches", "input_features", "input_values"),
    *("audio_values", "past_values", "image"),
)
_INPUTS = {"input_ids", *_OTHER_INPUTS}
# Endings of the names of generating classes.
_GENERATOR_NAMES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForVisionText2Text")
_CLASSIFIER_NAMES = ("ForSequenceClassification", "ForImageClassification")
_TASK_BY_NAME: dict[str, Task] = {
    "ForQuestionAnswering": "answer",
    "ForMaskedLM": "mask",
    "ForCausalLM": "next",
    "LMHeadModel": "next",
    "ModelWithLMHead": "next",
    "ForConditionalGeneration": "sequence",
    "MTModel": "sequence",
}


# Line breaks of every kind, and control characters that move a terminal's cursor.
_LINE_BREAKS = re.compile(r"\s*[\x00-\x1f\x7f-\x9f\u2028\u2029]+\s*")


def _detect_task(model: Any, takes_text: bool) -> tuple[tuple[str, ...], Task]:
    """Return the labels and the task of a model, by its class and its configuration."""
    kind, config = type(model), model.config
    name = kind.__name__
    # A user's own class may be a classifier under any name; only a run tells whether it gives logits.
    foreign = not kind.__module__.startswith("transformers.")
    classifies = foreign or any(part in name for part in _CLASSIFIER_NAMES)
    if classifies or name.endswith("ForTokenClassification"):
        known = config.id2label or {}
        names = [str(known.get(i, f"LABEL_{i}")) for i in range(config.num_labels)]
        for i, own in enumerate(names):  # each on one line, for tables and messages
            if _LINE_BREAKS.search(own):
                names[i] = _LINE_BREAKS.sub(" ", own).strip() or f"LABEL_{i}"
        if not classifies:
            return tuple(names), "tags"
        labels = tuple(n if names.count(n) == 1 else f"{n} ({i})" for i, n in enumerate(names))
        if config.problem_type == "multi_label_classification":
            return labels, "multi_label"
        regression = config.problem_type == "regression" or len(labels) == 1
        return labels, "regression" if regression else "single_label"
    if config.model_type == "clip" and name == "CLIPModel":
        return (), "similarity"
    task: Task = next((task for end, task in _TASK_BY_NAME.items() if name.endswith(end)), "none")
    if task == "next" and _is_masked_lm(config):
        return (), "mask"
    if name.endswith(_GENERATOR_NAMES):
        if not takes_text:  # it captions pictures or sound
            return (), "none"
        # Vision-language models are named ...ForConditionalGeneration but are decoders only.
        if not config.is_encoder_decoder:
            return (), "next"
    return (), task


def _is_masked_lm(config: Any) -> bool:
    """Return whether a language model is bidirectional, trained to fill masks, despite its class name.

    XLM and FlauBERT have one class for both, and BERT-like decoders are encoders unless is_decoder is set.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    both = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return both and not (getattr(config, "is_decoder", False) or getattr(config, "causal", False))


def _find_max_length(model: Any, texts: Any, tokenizer: Any) -> tuple[int | None, bool]:
    """Return the smaller limit of positions and tokenizer, and whether it is the tokenizer's.

    `texts` is the configuration of the text part. None where neither sets a bound.
    """
    own = None
    positions = getattr(texts, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        for name, module in model.named_modules():
            # RoBERTa and similar models count positions from padding_idx + 1.
            is_table = isinstance(module, torch.nn.Embedding) and module.num_embeddings == positions
            if is_table and "position" in name and module.padding_idx is not None:
                positions -= module.padding_idx + 1
                break
        own = positions
    limit = getattr(tokenizer, "model_max_length", None)
    if limit in (None, inf):
        return own, False
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if not is_number or not 1 <= limit < inf or limit != int(limit):
        raise BadTokenizer(
            f"The tokenizer's model_max_length is {limit!r}. It is a number of tokens, such as 512. Correct "
            "tokenizer_config.json, or set tokenizer.model_max_length."
        )
    # transformers writes 1e30 for none.
    by_tokenizer = limit < 1 << 30 and (own is None or limit < own)
    return (int(limit) if by_tokenizer else own), by_tokenizer
