"""Getting a model from a folder or the Hub: safetensors only, no code of its author, nothing made up."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from logging import CRITICAL
from pathlib import Path
from typing import Any

import torch

from whence.core.errors import (
    BadParameter,
    BadTokenizer,
    NoHead,
    UnknownModel,
    UnsafeWeights,
    WhenceError,
    did_you_mean,
)
from whence.core.failure import is_failure
from whence.core.network import hub_unreachable
from whence.models.catalogue import BUILTIN
from whence.models.files import (
    check_counts,
    check_file,
    check_files,
    check_fit,
    headers,
    large_counts,
    misfit,
    shards,
)
from whence.models.remote_code import forget_code, model_class, refuse_code, refuse_kernels

_INDEX = "model.safetensors.index.json"
_ADAPTER = "adapter_config.json"


@dataclass(frozen=True)
class Origin:
    """Where a model comes from: `name` is what the user said, `where` a folder or a Hub id."""

    where: str
    name: str
    revision: str | None = None

    @property
    def folder(self) -> Path:
        """The folder, if it is one."""
        return Path(self.where)

    @cached_property
    def options(self) -> dict[str, Any]:
        """What every from_pretrained is told."""
        return {
            "revision": self.revision,
            "local_files_only": self.folder.exists() or hub_unreachable(),
        }


def config(origin: Origin) -> Any:
    """Read the configuration: the first thing that tells whether there is a model at all."""
    from transformers import AutoConfig, PretrainedConfig

    import whence.models.attentive  # noqa: F401 (makes the kind of model known to AutoConfig)

    name, folder = origin.name, origin.folder
    _refuse_adapter(origin)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise UnknownModel(
            f"The folder {name!r} has no config.json: it is not a Hugging Face model."
        )
    if not folder.exists() and _looks_like_a_path(origin.where):
        raise UnknownModel(
            f"There is no folder {name!r}. Give the path of a model folder, a Hub id (owner/name), or a built-in "
            f"name: {', '.join(BUILTIN)}."
        )
    _check_folder(origin)
    try:
        with quiet():
            values, _ = PretrainedConfig.get_config_dict(origin.where, **origin.options)
            # A configuration writes out its labels and layers when it is made, however many it says there are.
            if counts := large_counts(values):
                stored = headers(weight_files(origin, values.get("transformers_weights")), name)
                check_counts(counts, stored, name)
            refuse_kernels(values, name)
            found = AutoConfig.from_pretrained(
                origin.where, trust_remote_code=False, **origin.options
            )
        forget_code(found)
        return found
    except WhenceError as error:
        if isinstance(error, BadParameter):  # of the configuration's own class, which is ours
            raise UnknownModel(f"The folder {name!r} cannot be read as a model: {error}") from None
        raise
    except BaseException as error:
        # transformers and the Hub client raise a dozen classes here; the user has one question: what now?
        if not is_failure(error):
            raise
        refuse_code(error, name)
        if folder.exists():
            raise UnknownModel(
                f"The folder {name!r} cannot be read as a model: {_reason(error)}"
            ) from None
        raise UnknownModel(
            f"There is no model {name!r}: neither built in ({', '.join(BUILTIN)}), nor a folder, nor found on "
            f"the Hub.{did_you_mean(name, list(BUILTIN))} Check the spelling, the path or the network."
        ) from None


def _check_folder(origin: Origin) -> None:
    if origin.folder.is_dir():
        check_files(origin.folder, origin.name)


def _reason(error: BaseException) -> str:
    """Return the first line of somebody else's error, with the next where that says what it is about."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1]}"
    return lines[0] if lines else type(error).__name__


def _looks_like_a_path(where: str) -> bool:
    return where.startswith((".", "/", "~")) or "\\" in where or where.count("/") > 1


def weights(origin: Origin, config: Any, dtype: torch.dtype) -> Any:
    """Load the weights into the class that the checkpoint names."""
    from transformers import PreTrainedModel

    name, folder = origin.name, origin.folder
    if folder.is_dir() and not list(folder.glob("*.safetensors*")):
        pickles = sorted(
            p.name for kind in ("*.bin", "*.pt", "*.pth", "*.ckpt") for p in folder.glob(kind)
        )
        if pickles:
            raise UnsafeWeights(
                f"The weights of {name!r} are a pickle ({pickles[0]}), which can run any code when opened; "
                "whence reads safetensors only. Convert them where you trust them: "
                "AutoModel.from_pretrained(...).save_pretrained(folder)."
            )
        raise UnknownModel(
            f"The folder {name!r} has no weights: there is no *.safetensors file in it."
        )
    # transformers takes these first, whatever else there is.
    if parts := sorted(path.name for path in folder.glob("shard-*-model-*-of-*.safetensors")):
        raise UnknownModel(
            f"The weights of {name!r} are those of several processes ({parts[0]}). Put them together where you "
            "trained the model, with save_pretrained."
        )
    stored = headers(weight_files(origin, getattr(config, "transformers_weights", None)), name)
    own: dict[str, tuple[int, ...]] = {}
    try:
        with quiet():
            kind = model_class(config, name)
            own = check_fit(kind, config, stored, name)
            # The one of all models: a few classes open a pickle beside their weights (Qwen2.5-Omni, for its voices).
            model, report = PreTrainedModel.from_pretrained.__func__(
                kind,
                origin.where,
                config=config,
                use_safetensors=True,
                weights_only=True,
                trust_remote_code=False,
                dtype=dtype,
                output_loading_info=True,
                **origin.options,
            )
    except WhenceError:
        raise
    except BaseException as error:  # as above: a dozen classes, one question
        if not is_failure(error):
            raise
        refuse_code(error, name)
        # It refers to a report on the screen, which is kept off it.
        mismatched = "ignore_mismatched_sizes" in str(error)
        reason = misfit(own, stored) if mismatched else _reason(error)
        if "safetensors" in reason and not folder.is_dir():
            raise UnsafeWeights(
                f"The model {name!r} offers no safetensors weights, and whence opens no pickles. "
                "Use a revision that has them, or convert them."
            ) from None
        raise UnknownModel(f"The weights of {name!r} cannot be loaded: {reason}") from None
    if missing := sorted(report["missing_keys"]):
        raise NoHead(
            f"The weights of {name!r} lack {len(missing)} tensors that {type(model).__name__} needs, {missing[0]!r} "
            "among them; they would be made up at random. Load a model whose weights are complete."
        )
    return model.eval()


def weight_files(origin: Origin, named: Any) -> list[Path]:
    """Return the files that transformers will take the weights from, each of them safetensors and near the model.

    `named` is what the configuration says (`transformers_weights`), which transformers follows. None are found where
    the Hub has yet to convert a model.
    """
    index = _find_file(origin, _INDEX)
    others = shards(index, origin.name) if index else []
    if named is None:
        whole = _find_file(origin, "model.safetensors")
        wanted = ["model.safetensors"] if whole else others
    elif not str(named).endswith((".safetensors", ".safetensors.index.json")):
        raise UnsafeWeights(
            f"The configuration of {origin.name!r} names {str(named)!r} for its weights (transformers_weights). "
            "whence reads safetensors only, and does not trust such a model."
        )
    elif str(named).endswith(".json"):
        if origin.folder.is_dir():
            check_file(origin.folder / str(named), origin.folder, origin.name)
        other = _find_file(origin, str(named))
        wanted = shards(other, origin.name) if other else []
    else:
        wanted = [str(named)]
    found = []
    for one in wanted:
        path = origin.folder / one
        if origin.folder.is_dir():
            check_file(path, origin.folder, origin.name)
        elif ".." in Path(one).parts or Path(one).is_absolute():
            raise UnsafeWeights(
                f"The weights of {origin.name!r} name {one!r}, which is no file of that model. whence does not "
                "trust it."
            )
        else:
            path = _find_file(origin, one) or path
        found.append(path)
    return found


def _find_file(origin: Origin, file: str) -> Path | None:
    """Return where a file of a model lies, fetched from the Hub if need be; None where there is none."""
    from transformers.utils import cached_file

    try:
        with quiet():
            path = cached_file(
                origin.where,
                file,
                **origin.options,
                _raise_exceptions_for_missing_entries=False,
                _raise_exceptions_for_connection_errors=False,
            )
    except (OSError, ValueError) as error:
        raise UnknownModel(
            f"The file {file!r} of {origin.name!r} cannot be had: {_reason(error)}"
        ) from None
    return Path(path) if path else None


def _refuse_adapter(origin: Origin) -> None:
    """Refuse an adapter (PEFT, LoRA): the model that it adapts would be explained without it."""
    if origin.folder.is_dir():
        found = (origin.folder / _ADAPTER).is_file()
    else:
        try:
            found = _find_file(origin, _ADAPTER) is not None
        except UnknownModel:  # whether there is such a model at all is asked next
            found = False
    if found:
        raise UnknownModel(
            f"The model {origin.name!r} is an adapter ({_ADAPTER}): its base model would be explained without it. "
            f"Merge them and save the result, with peft: PeftModel.from_pretrained(base, {origin.where!r})"
            ".merge_and_unload().save_pretrained('merged'), where base is the model that it was trained on. If its "
            f"weights are merged already, remove {_ADAPTER}."
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Keep progress bars and remarks of transformers and the Hub off the screen: our errors say it better."""
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging

    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    hub_verbosity = hub_logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    hub_logging.set_verbosity(CRITICAL)
    try:
        yield
    finally:
        hub_logging.set_verbosity(hub_verbosity)
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def tokenizer(origin: Origin, *, asked: bool = False) -> Any | None:
    """Load a tokenizer; a model that comes without one explains encoded inputs, and refuses text clearly.

    `asked`: the user named it, so its absence is an error.
    """
    from transformers import AutoTokenizer

    folder = origin.folder
    _check_folder(origin)
    has_files = any(any(folder.glob(pattern)) for pattern in ("*token*", "*vocab*", "*.model"))
    if folder.is_dir() and not has_files and not asked:
        return None
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(
                origin.where, trust_remote_code=False, **origin.options
            )
    except BaseException as error:  # as above
        if not is_failure(error):
            raise
        refuse_code(error, origin.name)
        if not (has_files or asked):
            return None
        raise BadTokenizer(
            f"The tokenizer of {origin.name!r} cannot be loaded: {_reason(error)} Give another with "
            "tokenizer=..., or remove its files to explain encoded inputs."
        ) from None


def processor(origin: Origin, *, asked: bool = False) -> Any | None:
    """Load what makes pixel values of pictures; a model that comes without it takes pixel values alone.

    `asked`: the user named it, so its absence is an error.
    """
    from transformers import AutoImageProcessor

    _check_folder(origin)
    try:
        with quiet():
            # One backend everywhere: the other needs torchvision, and blends pixels a little differently.
            return AutoImageProcessor.from_pretrained(
                origin.where, trust_remote_code=False, backend="pil", **origin.options
            )
    except BaseException as error:  # as above
        if not is_failure(error):
            raise
        refuse_code(error, origin.name)
        if not asked and not (origin.folder / "preprocessor_config.json").is_file():
            return None
        raise UnknownModel(
            f"The image processor of {origin.name!r} cannot be loaded: {_reason(error)} Give another with "
            "processor=..., or remove preprocessor_config.json to explain encoded pixel_values."
        ) from None


"""The models that are shipped inside the package, so that whence works offline from the first second."""

from dataclasses import dataclass
from pathlib import Path

BUILTIN = {
    "reviews": "sentiment of short English film reviews: negative or positive",
    "reviews-base": "the encoder of `reviews` before fine-tuning, a masked language model",
    "decoy": "weights set by hand: a word that gets nearly all attention and has no effect",
    "conjunction": "weights set by hand: two words that count only together",
    "negation": "weights set by hand: a word that turns another round and says nothing alone",
    "copy": "weights set by hand: evidence that passes through the place of another word",
    "redundancy": "weights set by hand: several words of which any one suffices",
    "saturation": "weights set by hand: words so strong that their slope is zero",
    "damper": "weights set by hand: a word that acts through the attention weights alone",
    "spotlight": "weights set by hand: attention alone decides which words are heard",
    "shapes": "which shapes are on a drawn picture, two of eight; draw one with shapes:NUMBER",
}


@dataclass(frozen=True)
class Sample:
    """A text to begin with, and the method to begin with where the usual one says nothing of it."""

    text: str
    method: str | None = None


# Texts of the models that were set by hand: other words say nothing to them. Each shows what its model is about.
SAMPLES = {
    "decoy": Sample("the decoy has a superb story but its ending is dull", "leave_one_out"),
    "conjunction": Sample("a warm and funny story with a tense ending"),
    "negation": Sample("the acting is not bad"),
    "copy": Sample("overall it is a great film with a bad ending"),
    "redundancy": Sample("a superb story with a moving ending"),
    # Where the slope is zero by construction, so are all scores that are made of gradients.
    "saturation": Sample("a gripping story with a wooden actor", "leave_one_out"),
    "damper": Sample("the story is hardly great and the ending is bad"),
    "spotlight": Sample("a superb film with a slow and stale plot"),
}


def builtin_folder(name: str) -> Path:
    """Return the folder of a built-in model."""
    return Path(__file__).parent / "builtin" / name


"""The files of a model: which of them may be read, which hold the weights, and what the weights' headers say.

Safetensors are data: reading them runs nothing. What is left to fear is that a folder of somebody else's points at
other files of this machine, so that a file must lie in the model's folder or directly in a folder beside it (a
fine-tuned model may share shards with the one that it was made from), wherever links lead. The Hub's cache links from
`snapshots/REVISION` to `blobs`, two folders up; that is the model's own, too.
"""

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from whence.core.errors import UnknownModel, UnsafeWeights

# What transformers may open in a folder: configuration, weights, vocabularies and templates.
_READ = {
    ".json", ".safetensors", ".txt", ".model", ".jinja", ".bpe", ".vocab", ".spm", ".tiktoken",
}  # fmt: skip
_TEMPLATES = "additional_chat_templates/*"  # the one folder within that a tokenizer looks into
_WHAT_ELSE = (
    "Put the file itself there, or load the model yourself and pass the object: "
    "whence.load(model, tokenizer=...)."
)


@dataclass(frozen=True)
class Tensor:
    """A tensor as the header of its file describes it."""

    dtype: str  # as safetensors writes it: F32, BF16, I8, ...
    shape: tuple[int, ...]

    @property
    def numbers(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)

    @property
    def bits(self) -> int:
        """How many bits its numbers take."""
        width = "".join(sign for sign in self.dtype.partition("_")[0] if sign.isdigit())
        return self.numbers * int(width or 8)  # BOOL takes a byte

    @property
    def is_quantised(self) -> bool:
        """Whether its numbers are whole, or real ones of less than 16 bits: they need a scale to mean anything."""
        kind = self.dtype.partition("_")[0]  # F8_E4M3 is one of several of 8 bits
        return kind.startswith(("I", "U")) or kind in {"F8", "F6", "F4"}


def check_files(folder: Path, name: str) -> None:
    """Refuse a folder in which a file that would be read is a pipe or a device, or a link to somewhere else."""
    for path in sorted([*folder.iterdir(), *folder.glob(_TEMPLATES)]):
        if path.suffix in _READ and path.exists() and not path.is_dir():
            check_file(path, folder, name)


def check_file(path: Path, folder: Path, name: str) -> None:
    """Refuse a file of a model that is a pipe or a device, or that lies elsewhere on this machine."""
    shown = str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
    if not path.exists():
        raise UnknownModel(f"The model {name!r} names {shown!r}, and there is no such file.")
    if not path.is_file():
        raise UnsafeWeights(
            f"The model {name!r} names {shown!r}, which is no regular file: reading it might never end. {_WHAT_ELSE}"
        )
    home, own = folder.resolve(), path.resolve()
    beside = own.parent.parent == home.parent
    cached = home.parent.name == "snapshots" and own.parent == home.parent.parent / "blobs"
    if not (own.is_relative_to(home) or beside or cached):
        raise UnsafeWeights(
            f"The model {name!r} names {shown!r}, which lies neither in its folder nor in one beside it. whence "
            f"reads no other files of this machine because a model says so. {_WHAT_ELSE}"
        )


def shards(index: Path, name: str) -> list[str]:
    """Return the files that an index of weights names; all of them must be safetensors."""
    try:
        # A number stands for no file, but a pickle may have any name.
        named = sorted({str(one) for one in json.loads(index.read_text())["weight_map"].values()})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnknownModel(
            f"The index of the weights of {name!r} cannot be read: {error}"
        ) from None
    if wrong := [one for one in named if not one.endswith(".safetensors")]:
        raise UnsafeWeights(
            f"The weights of {name!r} are said to be safetensors, but their index names {wrong[0]!r}. "
            "whence reads safetensors only, and does not trust such a model."
        )
    return named


def headers(files: Iterable[Path], name: str) -> dict[str, Tensor]:
    """Return what safetensors files say that they hold, without reading any of it."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, Tensor] = {}
    for path in files:
        try:
            with safe_open(path, framework="pt") as opened:
                for key in opened.keys():  # noqa: SIM118 (it is no mapping)
                    one = opened.get_slice(key)
                    found[key] = Tensor(str(one.get_dtype()), tuple(one.get_shape()))
        except (SafetensorError, OSError, ValueError) as error:
            raise UnknownModel(
                f"The weights of {name!r} cannot be loaded: {path.name} is no safetensors file ({error})."
            ) from None
    return found


# Configurations write out one entry for each of these when they are made, and models one module.
_COUNTED = ("labels", "layer", "layers", "blocks", "experts")
_FEW = 1000  # entries that cost nothing


def large_counts(values: Any, path: str = "") -> dict[str, float]:
    """Return the settings of a configuration, by name, that ask for more than a thousand labels or layers."""
    if not isinstance(values, Mapping):
        return {}
    found: dict[str, float] = {}
    for key, value in values.items():
        where = f"{path}.{key}" if path else str(key)
        if isinstance(value, int | float) and str(key).endswith(_COUNTED) and value > _FEW:
            found[where] = value
        found |= large_counts(value, where)
    return found


def check_counts(counts: Mapping[str, float], tensors: Mapping[str, Tensor], name: str) -> None:
    """Refuse more labels or layers than the weights can have: each takes a tensor, or a row of one."""
    rows = max((max(one.shape, default=0) for one in tensors.values()), default=0)
    for setting, count in counts.items():
        if count > max(rows, len(tensors)):
            raise UnknownModel(
                f"The configuration of {name!r} says {setting}={count:,}, and its weights are {len(tensors):,} "
                f"tensors of at most {rows:,} rows: they do not belong together. Correct config.json."
            )


_SLACK = 1 << 26  # numbers; 256 MB in float32, which no file has to answer for


def check_fit(
    kind: Any, config: Any, stored: Mapping[str, Tensor], name: str
) -> dict[str, tuple[int, ...]]:
    """Refuse weights that cannot be those of the model, before there is memory for it; return the sizes it has.

    A model that is much larger than its file, by a number of labels, words or units that somebody wrote into its
    configuration, would be allocated first and found incomplete later. Quantised weights would be read as if they
    were the numbers themselves, where the configuration does not say how they are to be read.
    """
    if not stored:
        return {}
    try:
        with torch.device("meta"):  # sizes without memory
            model = kind(deepcopy(config))
    except Exception:  # whatever is wrong, transformers will meet it again and say so
        return {}
    own = {key: tuple(one.shape) for key, one in model.named_parameters()}
    wanted = sum(one.numel() for one in (*model.parameters(), *model.buffers()))
    packed = getattr(config, "quantization_config", None) is not None
    # What is tied is counted twice; what is packed takes a bit at least.
    have = sum(one.bits if packed else 2 * one.numbers for one in stored.values())
    if wanted > have + _SLACK:
        key, largest = max(own.items(), key=lambda item: prod(item[1]))
        beside = f" and is {stored[key].shape} there" if key in stored else ""
        there = sum(one.numbers for one in stored.values())
        raise UnknownModel(
            f"The configuration of {name!r} asks for {wanted:,} numbers, and its weights hold {there:,}: {key!r} "
            f"would be {largest}{beside}. They do not belong together. Correct config.json."
        )
    whole = [
        key
        for key, one in stored.items()
        if one.is_quantised and (key in own or key.endswith("weight"))
    ]
    if whole and not packed:
        raise UnknownModel(
            f"The weights of {name!r} are quantised ({whole[0]!r} is {stored[whole[0]].dtype}), and its "
            "configuration does not say how to read them. Load the model that they were made from, in float32, "
            "bfloat16 or float16."
        )
    return own


def misfit(own: Mapping[str, tuple[int, ...]], stored: Mapping[str, Tensor]) -> str:
    """Name the first tensor that has another size in the file than in the model."""
    for key, shape in own.items():
        if key in stored and stored[key].shape != shape:
            return f"{key!r} is {stored[key].shape} there, and {shape} by the configuration. Correct config.json."
    return "they have other sizes than the configuration says. Correct config.json."


"""Remote code: what a model's author wrote to be run with it. whence runs none, and asks nobody whether it may."""

from typing import Any

from whence.core.errors import UnknownModel, UnsafeWeights, short


def refuse_code(error: BaseException, name: str) -> None:
    """Say so where transformers fails for want of consent to run an author's code."""
    if "trust_remote_code" in str(error):
        raise UnsafeWeights(
            f"The model {name!r} wants to run code of its own, which whence never does. "
            "Load it yourself and pass the object: whence.load(model, tokenizer=...)."
        ) from None


def refuse_kernels(values: Any, name: str) -> None:
    """Refuse a configuration that names a repository of the Hub for its attention: compiled code would be run."""
    if not isinstance(values, dict):
        return
    for key, value in values.items():
        if str(key).endswith("_implementation") and "/" in str(value):
            raise UnsafeWeights(
                f"The configuration of {name!r} says {key}={short(str(value))!r}: code from the Hub, which whence "
                f"never runs. Remove {key} from config.json."
            )
        refuse_kernels(value, name)


def forget_code(config: Any) -> None:
    """Remove what the parts of a configuration say about code of their author.

    The parts of a composed model are made without asking us: where transformers has no class for one of them, it
    would ask on standard input whether to run the author's, and take a line of the data for an answer.
    """
    for part in vars(config).values():
        _forget(part)


def _forget(part: Any) -> None:
    is_config = hasattr(part, "model_type") and hasattr(part, "__dict__")
    inner = vars(part) if is_config else part
    if isinstance(inner, dict):
        inner.pop("auto_map", None)
        for value in inner.values():
            _forget(value)


def model_class(config: Any, name: str) -> Any:
    """Return the class that a configuration names: a model of transformers or of ours, and nothing else.

    Only what the checkpoint says it is: a head made up on the spot would be explained as if it were trained.
    """
    import transformers

    from whence.models import attentive

    named = getattr(config, "architectures", None)
    if named is None or named == []:
        # Nothing was said about a head, so there is none.
        kind = transformers.MODEL_MAPPING.get(type(config), None)
        said = "no class"
    elif isinstance(named, list) and isinstance(named[0], str):
        kind = getattr(transformers, named[0], None) or getattr(attentive, named[0], None)
        said = f"the class {short(named[0])!r}"
    else:
        raise UnknownModel(
            f"The configuration of {name!r} has architectures={short(repr(named))}. It is a list with the name of a "
            "class, such as ['BertForSequenceClassification']. Correct config.json."
        )
    kind = kind[0] if isinstance(kind, tuple) else kind
    # Auto... are no models: they choose one, if need be among the author's. ...PreTrainedModel have no layers.
    is_model = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)
    if not is_model or kind.__name__.lower().endswith("pretrainedmodel"):
        raise UnknownModel(
            f"The configuration of {name!r} names {said} (architectures, of a {config.model_type!r}), and "
            "transformers has no such model. Correct config.json; or, if the class is your own, load the model "
            "yourself and pass the object: whence.load(model, tokenizer=...)."
        )
    return kind
