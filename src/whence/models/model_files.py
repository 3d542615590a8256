"""Safe loading of model files: config, weights, tokenizer, image processor; links, headers and sizes checked.

Weights are read from safetensors only, no code of a model's author is run, and no missing weight is drawn at
random.

Safetensors are data: reading them runs nothing. A folder could still point at other files of this machine, so
a file must lie in the model's folder or directly in a folder beside it (a fine-tuned model may share shards
with its base model), wherever links lead. The Hub's cache links from `snapshots/REVISION` to `blobs`, two
folders up, which is allowed.

Sizes are checked against the headers of the weights before memory is allocated.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from logging import CRITICAL
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from whence.core.errors import (
    BadParameter,
    BadTokenizer,
    NoHead,
    UnknownModel,
    UnsafeWeights,
    WhenceError,
    is_failure,
    shorten_quote,
    suggest_name,
)
from whence.core.network import is_hub_unreachable

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
    "shapes": "which shapes are on a drawn picture, two of eight; pictures: shapes:0 to shapes:11",
}


@dataclass(frozen=True)
class BuiltinExample:
    """A sample text of a built-in model, and a method where the default is uninformative."""

    text: str
    method: str | None = None


# Sample texts of the models with hand-set weights, which know no other words. Each shows its model's mechanism.
BUILTIN_EXAMPLES = {
    "decoy": BuiltinExample("the decoy has a superb story but its ending is dull", "leave_one_out"),
    "conjunction": BuiltinExample("a warm and funny story with a tense ending"),
    "negation": BuiltinExample("the acting is not bad"),
    "copy": BuiltinExample("overall it is a great film with a bad ending"),
    "redundancy": BuiltinExample("a superb story with a moving ending"),
    # The gradient is zero by construction, and so are all gradient-based scores.
    "saturation": BuiltinExample("a gripping story with a wooden actor", "leave_one_out"),
    "damper": BuiltinExample("the story is hardly great and the ending is bad"),
    "spotlight": BuiltinExample("a superb film with a slow and stale plot"),
}


def find_builtin_folder(name: str) -> Path:
    """Return the folder of a built-in model."""
    return Path(__file__).parent / "builtin" / name


_WEIGHTS_INDEX = "model.safetensors.index.json"
_ADAPTER_CONFIG = "adapter_config.json"


@dataclass(frozen=True)
class ModelOrigin:
    """The origin of a model: `name` as the user gave it, `where` a folder or a Hub id."""

    where: str
    name: str
    revision: str | None = None

    @cached_property
    def options(self) -> dict[str, Any]:
        """The keywords of every `from_pretrained`."""
        return {
            "revision": self.revision,
            "local_files_only": Path(self.where).exists() or is_hub_unreachable(),
        }


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Silence progress bars and logs of transformers and the Hub: our errors are clearer."""
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


@contextmanager
def _wrap_foreign_errors(
    name: str, build_error: Callable[[BaseException, str], WhenceError]
) -> Iterator[None]:
    """Silence transformers, and replace whatever it raises by the error built from that and its first line."""
    try:
        with silence_transformers():
            yield
    except WhenceError:
        raise
    except BaseException as error:
        # transformers, the Hub client and tokenizers raise a dozen classes; the user needs one error with a remedy.
        if not is_failure(error):
            raise
        if "trust_remote_code" in str(error):
            raise UnsafeWeights(
                f"The model {name!r} wants to run code of its own, which whence never does. "
                "Load it yourself and pass the object: whence.load(model, tokenizer=...)."
            ) from None
        lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
        # A first line that ends in a colon says nothing without the next.
        reason = " ".join(lines[: 2 if lines[0].endswith(":") else 1])
        raise build_error(error, reason) from None


def load_config(origin: ModelOrigin) -> Any:
    """Load the configuration; raise UnknownModel if there is no such model."""
    from transformers import AutoConfig, PretrainedConfig

    import whence.models.rnn  # noqa: F401 (makes the kind of model known to AutoConfig)

    name, folder = origin.name, Path(origin.where)
    try:
        is_adapter = _find_file(origin, _ADAPTER_CONFIG) is not None
    except UnknownModel:  # a missing model is reported below
        is_adapter = False
    if is_adapter:  # PEFT, LoRA
        raise UnknownModel(
            f"The model {name!r} is an adapter ({_ADAPTER_CONFIG}): its base model would be explained without it. "
            f"Merge them and save the result, with peft: PeftModel.from_pretrained(base, {origin.where!r})"
            ".merge_and_unload().save_pretrained('merged'), where base is the model that it was trained on. If its "
            f"weights are merged already, remove {_ADAPTER_CONFIG}."
        )
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise UnknownModel(
            f"The folder {name!r} has no config.json: it is not a Hugging Face model."
        )
    looks_like_path = origin.where.startswith((".", "/", "~")) or "\\" in origin.where
    if not folder.exists() and (looks_like_path or origin.where.count("/") > 1):
        raise UnknownModel(
            f"There is no folder {name!r}. Give the path of a model folder, a Hub id (owner/name), or a built-in "
            f"name: {', '.join(BUILTIN)}."
        )
    check_files(origin)

    def build_error(error: BaseException, reason: str) -> WhenceError:
        if folder.exists():
            return UnknownModel(f"The folder {name!r} cannot be read as a model: {reason}")
        return UnknownModel(
            f"There is no model {name!r}: neither built in ({', '.join(BUILTIN)}), nor a folder, nor found on "
            f"the Hub.{suggest_name(name, list(BUILTIN))} Check the spelling, the path or the network."
        )

    try:
        with _wrap_foreign_errors(name, build_error):
            values, _ = PretrainedConfig.get_config_dict(origin.where, **origin.options)
            check_config_values(values, origin)
            config = AutoConfig.from_pretrained(
                origin.where, trust_remote_code=False, **origin.options
            )
    except BadParameter as error:  # raised by our own AttentiveConfig
        raise UnknownModel(f"The folder {name!r} cannot be read as a model: {error}") from None
    # References to authors' code go from its parts: transformers creates the parts of a composed model itself, and if it
    # has no class for one of them, it would ask on standard input whether to run the author's, and take a line of
    # piped data for the answer.
    parts = list(vars(config).values())
    while parts:
        part = parts.pop()
        is_config = hasattr(part, "model_type") and hasattr(part, "__dict__")
        settings = vars(part) if is_config else part
        if isinstance(settings, dict):
            settings.pop("auto_map", None)
            parts.extend(settings.values())
    return config


def load_weights(origin: ModelOrigin, config: Any, dtype: torch.dtype) -> Any:
    """Load the weights into the class that the checkpoint names."""
    from transformers import PreTrainedModel

    name, folder = origin.name, Path(origin.where)
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
    # transformers prefers these files to all others.
    if parts := sorted(path.name for path in folder.glob("shard-*-model-*-of-*.safetensors")):
        raise UnknownModel(
            f"The weights of {name!r} are those of several processes ({parts[0]}). Put them together where you "
            "trained the model, with save_pretrained."
        )
    stored = read_headers(origin, getattr(config, "transformers_weights", None))
    own: dict[str, tuple[int, ...]] = {}

    def build_error(error: BaseException, reason: str) -> WhenceError:
        # The error refers to a report on the screen, which is silenced here.
        if "ignore_mismatched_sizes" in str(error):
            reason = "they have other sizes than the configuration says. Correct config.json."
            for key, shape in own.items():
                if key in stored and stored[key].shape != shape:
                    reason = f"{key!r} is {stored[key].shape} there, and {shape} by the configuration. Correct config.json."
                    break
        if "safetensors" in reason and not folder.is_dir():
            return UnsafeWeights(
                f"The model {name!r} offers no safetensors weights, and whence opens no pickles. "
                "Use a revision that has them, or convert them."
            )
        return UnknownModel(f"The weights of {name!r} cannot be loaded: {reason}")

    with _wrap_foreign_errors(name, build_error):
        kind = find_model_class(config, name)
        own.update(check_fit(kind, config, stored, name))
        # The base class's method: a few classes override it and open a pickle (Qwen2.5-Omni, for its voices).
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
    if missing := sorted(report["missing_keys"]):
        raise NoHead(
            f"The weights of {name!r} lack {len(missing)} tensors that {type(model).__name__} needs, {missing[0]!r} "
            "among them; they would be made up at random. Load a model whose weights are complete."
        )
    return model.eval()


def load_part(
    origin: ModelOrigin, part: Literal["tokenizer", "processor"], *, required: bool = False
) -> Any | None:
    """Load a model's tokenizer or image processor; None if it has none, and explains encoded inputs only.

    `required`: the user named it, so its absence is an error.
    """
    from transformers import AutoImageProcessor, AutoTokenizer

    folder, is_tokenizer = Path(origin.where), part == "tokenizer"
    patterns = ("*token*", "*vocab*", "*.model") if is_tokenizer else ("preprocessor_config.json",)
    expected = required or any(any(folder.glob(pattern)) for pattern in patterns)
    if is_tokenizer and folder.is_dir() and not expected:
        return None
    check_files(origin)
    what, files, encoded = "tokenizer", "its files", "inputs"
    if not is_tokenizer:
        what, files, encoded = "image processor", patterns[0], "pixel_values"
    auto_class = AutoTokenizer if is_tokenizer else AutoImageProcessor
    error_class: type[WhenceError] = BadTokenizer if is_tokenizer else UnknownModel
    # The same backend everywhere: the other needs torchvision, and resizes a little differently.
    options = {} if is_tokenizer else {"backend": "pil"}

    def build_error(_: BaseException, reason: str) -> WhenceError:
        return error_class(
            f"The {what} of {origin.name!r} cannot be loaded: {reason} Give another with {part}=..., or remove "
            f"{files} to explain encoded {encoded}."
        )

    try:
        with _wrap_foreign_errors(origin.name, build_error):
            return auto_class.from_pretrained(
                origin.where, trust_remote_code=False, **options, **origin.options
            )
    except error_class:
        if expected:
            raise
        return None


def _find_file(origin: ModelOrigin, file: str) -> Path | None:
    """Return the path of a model file, fetched from the Hub if needed; None if there is none."""
    from transformers.utils import cached_file

    folder = Path(origin.where)
    if folder.is_dir():
        return folder / file if (folder / file).is_file() else None
    with _wrap_foreign_errors(
        origin.name,
        lambda _, reason: UnknownModel(
            f"The file {file!r} of {origin.name!r} cannot be had: {reason}"
        ),
    ):
        path = cached_file(
            origin.where,
            file,
            **origin.options,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    return Path(path) if path else None


# Files that transformers may open in a folder: configuration, weights, vocabularies and templates.
_READABLE_ENDINGS = {
    ".json", ".safetensors", ".txt", ".model", ".jinja", ".bpe", ".vocab", ".spm", ".tiktoken",
}  # fmt: skip
_TEMPLATES = "additional_chat_templates/*"  # the one subfolder that a tokenizer reads
_ALTERNATIVE_HINT = (
    "Put the file itself there, or load the model yourself and pass the object: "
    "whence.load(model, tokenizer=...)."
)


class TensorHeader(NamedTuple):
    """The type and shape of a tensor, from the header of its file."""

    dtype: str  # as safetensors writes it: F32, BF16, I8, ...
    shape: tuple[int, ...]


def check_files(origin: ModelOrigin, paths: Iterable[Path] | None = None) -> None:
    """Refuse a file of a folder that is a pipe, a device or a link to elsewhere; by default all readable ones."""
    folder, name = Path(origin.where), origin.name
    if not folder.is_dir():
        return
    if paths is None:
        inside = sorted([*folder.iterdir(), *folder.glob(_TEMPLATES)])
        readable = [path for path in inside if path.suffix in _READABLE_ENDINGS]
        paths = [path for path in readable if path.exists() and not path.is_dir()]
    home = folder.resolve()
    for path in paths:
        file_name = str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
        if not path.exists():
            raise UnknownModel(
                f"The model {name!r} names {file_name!r}, and there is no such file."
            )
        if not path.is_file():
            raise UnsafeWeights(
                f"The model {name!r} names {file_name!r}, which is no regular file: reading it might never end. {_ALTERNATIVE_HINT}"
            )
        own = path.resolve()
        beside = own.parent.parent == home.parent
        cached = home.parent.name == "snapshots" and own.parent == home.parent.parent / "blobs"
        if not (own.is_relative_to(home) or beside or cached):
            raise UnsafeWeights(
                f"The model {name!r} names {file_name!r}, which lies neither in its folder nor in one beside it. whence "
                f"reads no other files of this machine because a model says so. {_ALTERNATIVE_HINT}"
            )


def _find_weight_files(origin: ModelOrigin, weights_name: Any) -> list[Path]:
    """Return the weight files that transformers will read; all must be safetensors, near the model.

    `weights_name` is the configuration's `transformers_weights`, which transformers follows. The list is empty if
    the Hub has not converted the model yet.
    """
    folder = Path(origin.where)
    given = None if weights_name is None else str(weights_name)
    if given is not None and not given.endswith((".safetensors", ".safetensors.index.json")):
        raise UnsafeWeights(
            f"The configuration of {origin.name!r} names {given!r} for its weights (transformers_weights). "
            "whence reads safetensors only, and does not trust such a model."
        )
    by_index = given is not None and given.endswith(".json")
    files: list[str] = []
    for index in (_WEIGHTS_INDEX, *([given] if given and by_index else [])):
        if index == given:
            check_files(origin, [folder / index])
        path = _find_file(origin, index)
        try:
            table = {} if path is None else json.loads(path.read_text())["weight_map"]
            # All values become text: a pickle may have any name.
            files = sorted({str(file) for file in table.values()})
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UnknownModel(
                f"The index of the weights of {origin.name!r} cannot be read: {error}"
            ) from None
        if wrong := [file for file in files if not file.endswith(".safetensors")]:
            raise UnsafeWeights(
                f"The weights of {origin.name!r} are said to be safetensors, but their index names {wrong[0]!r}. "
                "whence reads safetensors only, and does not trust such a model."
            )
    if given is None and _find_file(origin, "model.safetensors"):
        files = ["model.safetensors"]
    elif given is not None and not by_index:
        files = [given]
    if folder.is_dir():
        paths = [folder / file for file in files]
        check_files(origin, paths)
        return paths
    for file in files:
        if ".." in Path(file).parts or Path(file).is_absolute():
            raise UnsafeWeights(
                f"The weights of {origin.name!r} name {file!r}, which is no file of that model. whence does not "
                "trust it."
            )
    return [_find_file(origin, file) or folder / file for file in files]


def read_headers(origin: ModelOrigin, weights_name: Any) -> dict[str, TensorHeader]:
    """Return the tensor headers of a model's weight files, without reading the tensors."""
    from safetensors import SafetensorError, safe_open

    headers: dict[str, TensorHeader] = {}
    for path in _find_weight_files(origin, weights_name):
        try:
            with safe_open(path, framework="pt") as opened:
                for key in opened.keys():  # noqa: SIM118 (it is no mapping)
                    tensor = opened.get_slice(key)
                    headers[key] = TensorHeader(str(tensor.get_dtype()), tuple(tensor.get_shape()))
        except (SafetensorError, OSError, ValueError) as error:
            raise UnknownModel(
                f"The weights of {origin.name!r} cannot be loaded: {path.name} is no safetensors file ({error})."
            ) from None
    return headers


# Settings that make a configuration create one entry each, and a model one module each.
_COUNT_SETTINGS = ("labels", "layer", "layers", "blocks", "experts")
_FREE_COUNT = 1000  # entries that need no check


def check_config_values(values: Any, origin: ModelOrigin) -> None:
    """Refuse a configuration with code from the Hub, or with more labels or layers than the weights can hold."""
    settings: list[tuple[str, Any]] = []  # those of its parts, too: text_config.num_labels
    waiting = [("", values)] if isinstance(values, Mapping) else []
    while waiting:
        path, part = waiting.pop(0)
        for key, value in part.items():
            settings.append((f"{path}{key}", value))
            if isinstance(value, Mapping):
                waiting.append((f"{path}{key}.", value))
    for setting, value in settings:
        if setting.endswith("_implementation") and "/" in str(value):
            key = setting.rpartition(".")[2]
            raise UnsafeWeights(
                f"The configuration of {origin.name!r} says {key}={shorten_quote(str(value))!r}: code from the Hub, which "
                f"whence never runs. Remove {key} from config.json."
            )
    # A configuration object lists all its labels and layers, so a huge count would fill the memory.
    counts = [
        (setting, value)
        for setting, value in settings
        if setting.endswith(_COUNT_SETTINGS)
        and isinstance(value, int | float)
        and value > _FREE_COUNT
    ]
    tensors = read_headers(origin, values.get("transformers_weights")) if counts else {}
    rows = max((max(header.shape, default=0) for header in tensors.values()), default=0)
    for setting, count in counts:
        # Each label or layer takes a tensor, or a row of one.
        if count > max(rows, len(tensors)):
            raise UnknownModel(
                f"The configuration of {origin.name!r} says {setting}={count:,}, and its weights are {len(tensors):,} "
                f"tensors of at most {rows:,} rows: they do not belong together. Correct config.json."
            )


_SIZE_SLACK = 1 << 26  # elements that may be missing in the file; 256 MB in float32


# Integers, and floats of less than 16 bits, need a scale. F8_E4M3 is one of several 8-bit floats.
_QUANTISED = re.compile(r"[IU]|F[468](_|$)")


def check_fit(
    kind: Any, config: Any, stored: Mapping[str, TensorHeader], name: str
) -> dict[str, tuple[int, ...]]:
    """Refuse weights that do not fit the model, before memory is allocated; return the model's shapes.

    A configuration with far more labels, words or units than the file holds would allocate them before the missing
    weights are noticed. Quantised weights without a quantisation config would be read as plain numbers.
    """
    if not stored:
        return {}
    try:
        with torch.device("meta"):  # sizes without memory
            model = kind(deepcopy(config))
    except Exception:  # transformers will raise the same error when it loads the model
        return {}
    own = {key: tuple(parameter.shape) for key, parameter in model.named_parameters()}
    expected = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    packed = getattr(config, "quantization_config", None) is not None
    there = sum(prod(header.shape) for header in stored.values())
    have = 2 * there  # for tied weights
    if packed:  # an element takes at least a bit
        widths = {key: re.search(r"\d+", header.dtype) for key, header in stored.items()}
        bits = {key: int(width[0]) if width else 8 for key, width in widths.items()}  # BOOL: a byte
        have = sum(prod(header.shape) * bits[key] for key, header in stored.items())
    if expected > have + _SIZE_SLACK:
        key, largest = max(own.items(), key=lambda item: prod(item[1]))
        beside = f" and is {stored[key].shape} there" if key in stored else ""
        raise UnknownModel(
            f"The configuration of {name!r} asks for {expected:,} numbers, and its weights hold {there:,}: {key!r} "
            f"would be {largest}{beside}. They do not belong together. Correct config.json."
        )
    quantised = [
        key
        for key, header in stored.items()
        if _QUANTISED.match(header.dtype) and (key in own or key.endswith("weight"))
    ]
    if quantised and not packed:
        raise UnknownModel(
            f"The weights of {name!r} are quantised ({quantised[0]!r} is {stored[quantised[0]].dtype}), and its "
            "configuration does not say how to read them. Load the model that they were made from, in float32, "
            "bfloat16 or float16."
        )
    return own


def find_model_class(config: Any, name: str) -> Any:
    """Return the class that a configuration names: one of transformers or of whence, nothing else.

    Only the named class is loaded: a newly created head would be explained as if it were trained.
    """
    import transformers

    from whence.models import rnn

    architectures = getattr(config, "architectures", None)
    if architectures is None or architectures == []:
        # No class is named, so the model has no head.
        kind = transformers.MODEL_MAPPING.get(type(config), None)
    elif isinstance(architectures, list) and isinstance(architectures[0], str):
        kind = getattr(transformers, architectures[0], None) or getattr(rnn, architectures[0], None)
    else:
        raise UnknownModel(
            f"The configuration of {name!r} has architectures={shorten_quote(repr(architectures))}. It is a list with the name of a "
            "class, such as ['BertForSequenceClassification']. Correct config.json."
        )
    kind = kind[0] if isinstance(kind, tuple) else kind
    # Auto... classes are no models: they choose one, even an author's. ...PreTrainedModel classes have no layers.
    is_model = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)
    if not is_model or kind.__name__.lower().endswith("pretrainedmodel"):
        named = f"the class {shorten_quote(architectures[0])!r}" if architectures else "no class"
        raise UnknownModel(
            f"The configuration of {name!r} names {named} (architectures, of a {config.model_type!r}), and "
            "transformers has no such model. Correct config.json; or, if the class is your own, load the model "
            "yourself and pass the object: whence.load(model, tokenizer=...)."
        )
    return kind
