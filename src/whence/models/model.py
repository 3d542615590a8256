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
from whence.core.types import Task
from whence.models.facts import find_device, find_token_embeddings


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to be explained, with facts from its configuration and tokenizer."""

    model: Any  # a transformers.PreTrainedModel
    tokenizer: Any | None
    name: str
    revision: str | None
    task: Task
    labels: tuple[str, ...]
    max_length: int | None
    pad_id: int | None  # the id of padding
    pad_ids: frozenset[int]  # all ids that count as padding: the model's and the tokenizer's
    # Replacement tokens: mask, pad, unk, and draw, a mask that the infill model fills.
    fillers: Mapping[str, int]
    anchors: frozenset[int]  # ids that the model's head looks for, and must not be removed
    infiller: "InfillModel | None" = None
    processor: Any | None = None  # the image processor
    # Whether max_length is the tokenizer's, and the model would take more.
    cut_by_tokenizer: bool = False
    checkpoint: bool = False  # gradient checkpointing: blocks run again, for less memory

    @cached_property
    def is_classifier(self) -> bool:
        """Whether the outputs are labels of the whole input: one row of logits."""
        return self.task in ("single_label", "multi_label", "regression")

    def check_classifier(self) -> None:
        """Refuse a model that does not classify whole inputs."""
        if not self.is_classifier:
            raise NoHead(
                f"{self.name!r} is a {type(self.model).__name__}: it does not classify whole inputs, so that they "
                "have no predicted label. Give a model that classifies."
            )

    @cached_property
    def takes_images(self) -> bool:
        """Whether the model takes images."""
        return self.modality != "text"

    @cached_property
    def modality(self) -> Literal["text", "picture", "both"]:
        """The model's input: texts, images, or both compared with each other."""
        return detect_modality(self.model)

    @cached_property
    def length_limit(self) -> str:
        """The length limit and whether model or tokenizer sets it, as a clause of a sentence."""
        if self.cut_by_tokenizer:
            return f"its tokenizer allows at most {self.max_length} (model_max_length; the model itself takes more)"
        return f"the model takes at most {self.max_length}"

    @property
    def device(self) -> torch.device:
        """The device of the weights, or the one that offloaded weights are brought to."""
        return find_device(self.model)

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
    def needs_pair(self) -> bool:
        """Whether an input must be a pair of texts, as for our attentive models with a query."""
        config = self.model.config
        return bool(config.model_type == "attentive" and config.query)

    @cached_property
    def needs_single_text(self) -> bool:
        """Whether an input must be a single text, as for our attentive models without a query."""
        config = self.model.config
        return bool(config.model_type == "attentive" and not config.query)

    @cached_property
    def takes_boxes(self) -> bool:
        """Whether the model reads the boxes of tokens on a page."""
        return "bbox" in (self.forward_keywords or ())

    @cached_property
    def forward_keywords(self) -> frozenset[str] | None:
        """The keywords of the model's forward; None if it takes any."""
        takes = inspect.signature(self.model.forward).parameters
        return frozenset(takes) if {"input_ids", *_OTHER_INPUTS} & takes.keys() else None

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
        self.check_input_kind()
        if self.task == "none":
            raise NoHead(
                f"{self.name!r} is a {type(self.model).__name__}: it has no head that whence knows, so "
                "there is no prediction to explain. Load a model for a task: ...ForSequenceClassification, "
                "...ForQuestionAnswering, ...ForTokenClassification, ...ForMaskedLM, ...ForCausalLM, "
                "...ForConditionalGeneration, ...ForImageClassification, or CLIPModel."
            )

    @cached_property
    def _takes_input(self) -> bool:
        return self.modality != "text" or can_take_text(self.model)

    def check_input_kind(self) -> None:
        """Refuse a model that takes neither texts nor images."""
        if not self._takes_input:
            kind, takes = type(self.model), inspect.signature(self.model.forward).parameters
            own = next(
                (name for name in _OTHER_INPUTS if name in takes), next(iter(takes), "nothing")
            )
            what = (
                f"it needs {own!r} beside a text, and whence explains a text or a picture alone"
                if "input_ids" in takes
                else f"its input is {own!r}, and whence explains texts and pictures"
            )
            raise NoHead(
                f"{self.name!r} is a {kind.__name__}: {what}. Load a model that takes one of these alone."
            )


@dataclass(frozen=True)
class InfillModel:
    """A masked language model that shares the vocabulary of an explained model."""

    loaded: LoadedModel
    mask_id: int
    words: tuple[int, ...]  # the ids that may be drawn, without special tokens


def build_loaded_model(
    model: Any, tokenizer: Any, name: str, revision: str | None, processor: Any = None
) -> LoadedModel:
    """Build a `LoadedModel` from a model, its configuration and its tokenizer."""
    labels, task = _detect_task(model)
    # An image-text model has a configuration for each part.
    texts = getattr(model.config, "text_config", None) or model.config
    ids = [getattr(owner, "pad_token_id", None) for owner in (model.config, texts, tokenizer)]
    pads = [identity for identity in ids if isinstance(identity, int) and identity >= 0]
    pad_id = pads[0] if pads else None
    fillers = {
        kind: identity
        for kind in ("mask", "pad", "unk")
        if (identity := getattr(tokenizer, f"{kind}_token_id", None)) is not None
    }
    if "pad" not in fillers and pad_id is not None:
        fillers["pad"] = pad_id
    if detect_modality(model) != "text":
        # Patches are covered, not replaced by a token: only the names count, the ids are unused.
        own = fillers if detect_modality(model) == "both" else {}
        fillers = {**own, **dict.fromkeys(("black", "mean", "blur"), 0)}
    # BART and T5 classifiers read at the end-of-sequence token and fail without one.
    end = getattr(model.config, "eos_token_id", None)
    reads_end = model.config.is_encoder_decoder and task != "sequence"
    if task == "similarity":
        # CLIP also reads a text at its end token. Old configurations name another one than the tokenizer.
        reads_end = True
        end = getattr(tokenizer, "eos_token_id", None) or model.config.text_config.eos_token_id
    anchors = [end] if isinstance(end, int) and reads_end else []
    longest, by_tokenizer = _find_max_length(model, tokenizer)
    return LoadedModel(
        model,
        tokenizer,
        name,
        revision,
        task,
        labels,
        longest,
        pad_id,
        frozenset(pads),
        fillers,
        frozenset(anchors),
        processor=processor,
        cut_by_tokenizer=by_tokenizer,
    )


def detect_modality(model: Any) -> Literal["text", "picture", "both"]:
    """Return the input of a model: texts, images, or both compared with each other.

    A generating model that takes pictures as well counts as a text model: the text is explained.
    """
    takes = inspect.signature(model.forward).parameters
    if "pixel_values" not in takes:
        return "text"
    if "input_ids" not in takes:
        return "picture"
    return "text" if "bbox" in takes or _is_generator(type(model).__name__) else "both"


def can_take_text(model: Any) -> bool:
    """Return whether a text is enough for a model: it takes token ids, and requires nothing else."""
    takes = inspect.signature(model.forward).parameters
    inputs = {"input_ids", *_OTHER_INPUTS} & takes.keys()
    if not inputs:  # forward(**inputs) takes any keyword
        return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in takes.values())
    needs = {name for name in inputs if takes[name].default is inspect.Parameter.empty}
    return "input_ids" in inputs and needs <= {"input_ids"}


# Inputs other than token ids: pictures, sound, time series.
_OTHER_INPUTS = (
    *("pixel_values", "pixel_values_videos", "flattened_patches", "input_features", "input_values"),
    *("audio_values", "past_values", "image"),
)
# Endings of the names of generating classes.
_GENERATOR_NAMES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForVisionText2Text")


def _is_generator(name: str) -> bool:
    return name.endswith(_GENERATOR_NAMES)


def _detect_task(model: Any) -> tuple[tuple[str, ...], Task]:
    kind, config = type(model), model.config
    # A user's own class may be a classifier under any name; only a run tells whether it gives logits.
    foreign = not kind.__module__.startswith("transformers.")
    if not foreign and not any(name in kind.__name__ for name in _CLASSIFIER_NAMES):
        return _detect_other_task(model)
    names = _list_output_names(config)
    labels = tuple(n if names.count(n) == 1 else f"{n} ({i})" for i, n in enumerate(names))
    if config.problem_type == "multi_label_classification":
        return labels, "multi_label"
    if config.problem_type == "regression" or len(labels) == 1:
        return labels, "regression"
    return labels, "single_label"


# Line breaks of every kind, and control characters that move a terminal's cursor.
_LINE_BREAKS = re.compile(r"\s*[\x00-\x1f\x7f-\x9f\u2028\u2029]+\s*")


def _list_output_names(config: Any) -> list[str]:
    """Return the names of the outputs, each on one line, for tables and messages."""
    known = config.id2label or {}
    names = [str(known.get(i, f"LABEL_{i}")) for i in range(config.num_labels)]
    return [
        _LINE_BREAKS.sub(" ", name).strip() or f"LABEL_{i}" if _LINE_BREAKS.search(name) else name
        for i, name in enumerate(names)
    ]


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


def _detect_other_task(model: Any) -> tuple[tuple[str, ...], Task]:
    """Return labels and task of a model that does not classify whole inputs."""
    name, config = type(model).__name__, model.config
    if name.endswith("ForTokenClassification"):
        return tuple(_list_output_names(config)), "tags"
    if config.model_type == "clip" and name == "CLIPModel":
        return (), "similarity"
    task: Task = next((task for end, task in _TASK_BY_NAME.items() if name.endswith(end)), "none")
    if task == "next" and _is_masked_lm(config):
        return (), "mask"
    if _is_generator(name) and not can_take_text(model):  # it captions pictures or sound
        return (), "none"
    # Vision-language models are named ...ForConditionalGeneration but are decoders only.
    if _is_generator(name) and not config.is_encoder_decoder:
        return (), "next"
    return (), task


def _is_masked_lm(config: Any) -> bool:
    """Return whether a language model is bidirectional, trained to fill masks, despite its class name.

    XLM and FlauBERT have one class for both, and BERT-like decoders are encoders unless is_decoder is set.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    both = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return both and not (getattr(config, "is_decoder", False) or getattr(config, "causal", False))


def _find_max_length(model: Any, tokenizer: Any) -> tuple[int | None, bool]:
    """Return the smaller limit of positions and tokenizer, and whether it is the tokenizer's.

    None where neither sets a bound.
    """
    own = None
    # An image-text model has a limit for each part.
    texts = getattr(model.config, "text_config", None) or model.config
    positions = getattr(texts, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        for name, module in model.named_modules():
            # RoBERTa and similar models count positions from padding_idx + 1.
            is_table = isinstance(module, torch.nn.Embedding) and module.num_embeddings == positions
            if is_table and "position" in name and module.padding_idx is not None:
                positions -= module.padding_idx + 1
                break
        own = positions
    tokenizer_limit = getattr(tokenizer, "model_max_length", None)
    if tokenizer_limit not in (None, inf):
        limit = _parse_length_limit(tokenizer_limit)
        if limit < 1 << 30 and (own is None or limit < own):
            return limit, True
    return own, False


def _parse_length_limit(limit: Any) -> int:
    """Return a tokenizer's own limit as a number of tokens; transformers writes 1e30 for none."""
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if not is_number or not 1 <= limit < inf or limit != int(limit):
        raise BadTokenizer(
            f"The tokenizer's model_max_length is {limit!r}. It is a number of tokens, such as 512. Correct "
            "tokenizer_config.json, or set tokenizer.model_max_length."
        )
    return int(limit)
