"""A model with what its configuration and tokenizer say about it."""

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
from whence.models.offload import device_of
from whence.models.table import token_table


@dataclass(frozen=True)
class Loaded:
    """A model ready to be explained, with what its configuration and tokenizer say about it."""

    model: Any  # a transformers.PreTrainedModel
    tokenizer: Any | None
    name: str
    revision: str | None
    task: Task
    labels: tuple[str, ...]
    max_length: int | None
    pad_id: int | None  # what padding is made of
    pad_ids: frozenset[int]  # what counts as padding: the model's and the tokenizer's
    # The ids that can stand in for a removed token: mask, pad, unk, and draw, a mask for the infiller to fill.
    fillers: Mapping[str, int]
    anchors: frozenset[int]  # ids without which the model is undefined: its head looks for them
    infiller: "Infiller | None" = None
    processor: Any | None = None  # what makes pixel values of a picture
    # Whether it is the tokenizer that sets max_length, and the model would take more.
    cut_by_tokenizer: bool = False
    checkpoint: bool = False  # whether its blocks are run again rather than kept, for less memory

    @property
    def classifies(self) -> bool:
        """Whether its outputs are its labels: one row of logits for an input."""
        return self.task in ("single_label", "multi_label", "regression")

    def require_labels(self) -> None:
        """Refuse a model that says no one thing about a whole input."""
        if not self.classifies:
            raise NoHead(
                f"{self.name!r} is a {type(self.model).__name__}: it does not classify whole inputs, so that they "
                "have no predicted label. Give a model that classifies."
            )

    @property
    def sees(self) -> bool:
        """Whether it takes pictures."""
        return self.modality != "text"

    @property
    def modality(self) -> Literal["text", "picture", "both"]:
        """What it takes: texts, pictures, or either held against the other."""
        return modality(self.model)

    @property
    def limit(self) -> str:
        """The longest input and who sets it, as a part of a sentence."""
        if self.cut_by_tokenizer:
            return f"its tokenizer allows at most {self.max_length} (model_max_length; the model itself takes more)"
        return f"the model takes at most {self.max_length}"

    @property
    def device(self) -> torch.device:
        """Where the weights are, or are brought to when they are needed."""
        return device_of(self.model)

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the computation."""
        found: torch.dtype = next(
            p.dtype for p in self.model.parameters() if p.dtype.is_floating_point
        )
        return found

    @property
    def vocabulary(self) -> int | None:
        """The number of token embeddings."""
        try:
            weight = getattr(token_table(self.model), "weight", None)
        except NotImplementedError:  # what transformers raises where it cannot find them
            return None
        return None if weight is None else int(weight.shape[0])

    @property
    def pairs(self) -> bool:
        """Whether an input must be a pair of texts: of the models that we know, those that read one by the other."""
        config = self.model.config
        return bool(config.model_type == "attentive" and config.query)

    @property
    def singles(self) -> bool:
        """Whether an input must not be a pair of texts: of the models that we know, those without a query."""
        config = self.model.config
        return bool(config.model_type == "attentive" and not config.query)

    @property
    def boxed(self) -> bool:
        """Whether it reads, beside the tokens of a page, where they stand on it."""
        return "bbox" in (self.accepts or ())

    @cached_property
    def accepts(self) -> frozenset[str] | None:
        """The keywords of the model's forward; None where it takes any."""
        takes = inspect.signature(self.model.forward).parameters
        return frozenset(takes) if {"input_ids", *_OTHER_INPUTS} & takes.keys() else None

    def require_input(self) -> None:
        """Refuse a model that takes neither texts nor pictures."""
        if self.modality == "text" and not takes_text(self.model):
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
class Infiller:
    """A masked language model that shares the vocabulary of an explained model."""

    loaded: Loaded
    mask_id: int
    words: tuple[int, ...]  # the ids that may be drawn: no special ones


def described(
    model: Any, tokenizer: Any, name: str, revision: str | None, processor: Any = None
) -> Loaded:
    """Ask configuration and tokenizer for all that explaining needs to know."""
    labels, task = _task(model)
    # A model of pictures and texts has a configuration for each.
    texts = getattr(model.config, "text_config", None) or model.config
    stated = [getattr(one, "pad_token_id", None) for one in (model.config, texts, tokenizer)]
    pads = [identity for identity in stated if isinstance(identity, int) and identity >= 0]
    pad_id = pads[0] if pads else None
    fillers = {
        kind: identity
        for kind in ("mask", "pad", "unk")
        if (identity := getattr(tokenizer, f"{kind}_token_id", None)) is not None
    }
    if "pad" not in fillers and pad_id is not None:
        fillers["pad"] = pad_id
    if modality(model) != "text":
        # Patches are covered, not replaced by a token: these are names, and the numbers mean nothing.
        own = fillers if modality(model) == "both" else {}
        fillers = {**own, **dict.fromkeys(("black", "mean", "blur"), 0)}
    # BART and T5 classifiers read the place of the end-of-sequence token and fail without one.
    end = getattr(model.config, "eos_token_id", None)
    reads_end = model.config.is_encoder_decoder and task != "sequence"
    if task == "similarity":
        # CLIP reads a text at its end, too. Old configurations name another token than the tokenizer.
        reads_end = True
        end = getattr(tokenizer, "eos_token_id", None) or model.config.text_config.eos_token_id
    anchors = [end] if isinstance(end, int) and reads_end else []
    longest, by_tokenizer = _max_length(model, tokenizer)
    return Loaded(
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


def modality(model: Any) -> Literal["text", "picture", "both"]:
    """Say what a model takes: texts, pictures, or either held against the other.

    What goes on from texts takes pictures beside them, if at all: a text is what is explained.
    """
    takes = inspect.signature(model.forward).parameters
    if "pixel_values" not in takes:
        return "text"
    if "input_ids" not in takes:
        return "picture"
    return "text" if "bbox" in takes or _goes_on(type(model).__name__) else "both"


def takes_text(model: Any) -> bool:
    """Say whether a text is enough for a model: it takes token ids, and needs nothing else."""
    takes = inspect.signature(model.forward).parameters
    named = {"input_ids", *_OTHER_INPUTS} & takes.keys()
    if not named:  # forward(**inputs) takes whatever it is given
        return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())
    needs = {name for name in named if takes[name].default is inspect.Parameter.empty}
    return "input_ids" in named and needs <= {"input_ids"}


# What models are given in place of the ids of tokens: pictures, sound, tables of numbers.
_OTHER_INPUTS = (
    *("pixel_values", "pixel_values_videos", "flattened_patches", "input_features", "input_values"),
    *("audio_values", "past_values", "image"),
)
# Classes that generate, by the end of their names.
_GENERATORS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForVisionText2Text")


def _goes_on(name: str) -> bool:
    return name.endswith(_GENERATORS)


def _task(model: Any) -> tuple[tuple[str, ...], Task]:
    kind, config = type(model), model.config
    # A class of one's own may be a classifier under any name; whether it gives logits shows when it is run.
    foreign = not kind.__module__.startswith("transformers.")
    if not foreign and not any(name in kind.__name__ for name in _CLASSIFIERS):
        return _other_task(model)
    names = _names(config)
    labels = tuple(n if names.count(n) == 1 else f"{n} ({i})" for i, n in enumerate(names))
    if config.problem_type == "multi_label_classification":
        return labels, "multi_label"
    if config.problem_type == "regression" or len(labels) == 1:
        return labels, "regression"
    return labels, "single_label"


# Line breaks of every kind, and what moves the cursor of a terminal.
_BREAKS = re.compile(r"\s*[\x00-\x1f\x7f-\x9f\u2028\u2029]+\s*")


def _names(config: Any) -> list[str]:
    """Return the names of the outputs, each on one line: they head columns, and stand in lines and messages."""
    known = config.id2label or {}
    stated = [str(known.get(i, f"LABEL_{i}")) for i in range(config.num_labels)]
    return [
        _BREAKS.sub(" ", name).strip() or f"LABEL_{i}" if _BREAKS.search(name) else name
        for i, name in enumerate(stated)
    ]


_CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")
_TASKS: dict[str, Task] = {
    "ForQuestionAnswering": "answer",
    "ForMaskedLM": "mask",
    "ForCausalLM": "next",
    "LMHeadModel": "next",
    "ModelWithLMHead": "next",
    "ForConditionalGeneration": "sequence",
    "MTModel": "sequence",
}


def _other_task(model: Any) -> tuple[tuple[str, ...], Task]:
    """Return labels and task of a model that classifies no whole inputs."""
    name, config = type(model).__name__, model.config
    if name.endswith("ForTokenClassification"):
        return tuple(_names(config)), "tags"
    if config.model_type == "clip" and name == "CLIPModel":
        return (), "similarity"
    task: Task = next((task for end, task in _TASKS.items() if name.endswith(end)), "none")
    if task == "next" and _fills_in(config):
        return (), "mask"
    if _goes_on(name) and not takes_text(model):  # it writes about pictures or sound
        return (), "none"
    # What goes on from texts and pictures has the name of an encoder with a decoder, and is none.
    if _goes_on(name) and not config.is_encoder_decoder:
        return (), "next"
    return (), task


def _fills_in(config: Any) -> bool:
    """Say whether a language model sees what follows, and so was trained to fill in masks, whatever its class's name.

    XLM and FlauBERT have one class for both, and the decoders of BERT and its kin are encoders unless told otherwise.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    both = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return both and not (getattr(config, "is_decoder", False) or getattr(config, "causal", False))


def _max_length(model: Any, tokenizer: Any) -> tuple[int | None, bool]:
    """Return the smaller of what the positions and the tokenizer allow, and whether it is the tokenizer's.

    None where neither sets a bound.
    """
    own = None
    # A model of pictures and texts says it of each.
    texts = getattr(model.config, "text_config", None) or model.config
    positions = getattr(texts, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        for name, module in model.named_modules():
            # RoBERTa and its kin count positions from padding_idx + 1.
            is_table = isinstance(module, torch.nn.Embedding) and module.num_embeddings == positions
            if is_table and "position" in name and module.padding_idx is not None:
                positions -= module.padding_idx + 1
                break
        own = positions
    stated = getattr(tokenizer, "model_max_length", None)
    if stated not in (None, inf):
        limit = _length(stated)
        if limit < 1 << 30 and (own is None or limit < own):
            return limit, True
    return own, False


def _length(stated: Any) -> int:
    """Return a tokenizer's own limit as a number of tokens; transformers writes 1e30 for none."""
    is_number = isinstance(stated, int | float) and not isinstance(stated, bool)
    if not is_number or not 1 <= stated < inf or stated != int(stated):
        raise BadTokenizer(
            f"The tokenizer's model_max_length is {stated!r}. It is a number of tokens, such as 512. Correct "
            "tokenizer_config.json, or set tokenizer.model_max_length."
        )
    return int(stated)


"""Weights that are not in the model: accelerate keeps them in memory or on disk and brings each when it is needed.

Meanwhile their place is held by tensors of the meta device, which have a shape and no numbers.
"""

from collections.abc import Iterator
from typing import Any

import torch


def resident(model: torch.nn.Module) -> dict[str, Any]:
    """Return the state of a model with the numbers of what was offloaded; what else is meta stays so."""
    state = dict(model.state_dict())
    if not any(isinstance(one, torch.Tensor) and one.is_meta for one in state.values()):
        return state
    for prefix, module in model.named_modules():
        for hook in _hooks(module):
            kept: Any = getattr(hook, "weights_map", None)
            if kept is None:
                continue
            for name in (*module._parameters, *module._buffers):
                whole = f"{prefix}.{name}" if prefix else name
                value = state.get(whole)
                if isinstance(value, torch.Tensor) and value.is_meta:
                    state[whole] = kept[name]
    return state


def is_offloaded(model: torch.nn.Module) -> bool:
    """Say whether accelerate brings some of the weights when they are needed."""
    return any(getattr(hook, "offload", False) for part in model.modules() for hook in _hooks(part))


def device_of(model: torch.nn.Module) -> torch.device:
    """Return where a model takes its input: where its first weights are, or are brought to."""
    here: torch.device = next(model.parameters()).device
    if here.type != "meta":
        return here
    for part in model.modules():
        for hook in _hooks(part):
            where = getattr(hook, "execution_device", None)
            if where is not None:
                return torch.device(where)
    return here


def _hooks(module: torch.nn.Module) -> Iterator[Any]:
    """Yield what accelerate hung on a module; several hooks stand in a list of one."""
    hook = getattr(module, "_hf_hook", None)
    if hook is not None:
        yield hook
        yield from getattr(hook, "hooks", ())


"""The modules and weights of a model, walked once while it is held and not once for everyone who asks.

PyTorch's own walk takes a generator for every level of every module. On a small input that shows beside the
forward and backward pass.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn

# Models that are held now, by identity. Meanwhile nobody adds modules to them or takes any away.
_held: dict[int, list[nn.Module]] = {}


def parts(model: nn.Module) -> list[nn.Module]:
    """Return what `model.modules()` gives, in its order."""
    held = _held.get(id(model))
    return _walked(model) if held is None else held


def weights(modules: Iterable[nn.Module]) -> list[nn.Parameter]:
    """Return what `parameters()` gives of all these modules, each once."""
    found: dict[int, nn.Parameter] = {}
    for module in modules:
        for one in module._parameters.values():
            if one is not None:
                found[id(one)] = one
    return list(found.values())


@contextmanager
def held(model: nn.Module) -> Iterator[list[nn.Module]]:
    """Walk a model once for everyone who asks for its parts until the end of the block.

    Only who has the model's turn may do so.
    """
    before = _held.get(id(model))
    _held[id(model)] = _walked(model) if before is None else before
    try:
        yield _held[id(model)]
    finally:
        if before is None:
            del _held[id(model)]


def _walked(model: nn.Module) -> list[nn.Module]:
    found: dict[nn.Module, None] = {}
    _walk(model, found)
    return list(found)


def _walk(module: nn.Module, found: dict[nn.Module, None]) -> None:
    found[module] = None
    for child in module._modules.values():
        if child is None or child in found:
            continue
        if child._modules:
            _walk(child, found)
        else:  # most are leaves, and a call takes longer than all the rest
            found[child] = None


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
