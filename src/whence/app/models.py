"""Served models: loading on first use, request inputs, uploaded pictures and a cache of inspected inputs.

Each model is loaded and asked in its own thread. The cache holds the inputs asked about last, as many as fit
into a number of bytes, and at least one. Entities that a tagger finds are selected by their number.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whence.app.error_responses import describe_error
from whence.app.jobs import ModelWorker
from whence.app.library import build_unique_id, clean_file_name
from whence.app.schema import Input
from whence.app.settings import PAIR_SAMPLES, Settings
from whence.core.errors import (
    BadParameter,
    NotAllowed,
    NotFound,
    UnknownModel,
    suggest_name,
    to_exception,
)
from whence.core.files import format_public_name
from whence.models.model_files import BUILTIN_EXAMPLES

if TYPE_CHECKING:
    from PIL.Image import Image

    from whence.data.example import StoredImage
    from whence.explain.explainer import Explainer
    from whence.explain.inside import Inside
    from whence.models.model import LoadedModel


def is_about_all_entities(model: "ServedModel", model_input: "Input") -> bool:
    """Return whether a request is about all entities of a tagger, not one position."""
    return model.explainer().loaded.task == "tags" and model_input.at is None


def find_entities(model: "ServedModel", model_input: "Input") -> list[Any]:
    """Return the entities of a tagger's input; empty for a request about one position."""
    if not is_about_all_entities(model, model_input):
        return []
    return list(
        model.explainer().entities(model.resolve_input(model_input), truncate=model_input.truncate)
    )


def select_entity(model_input: "Input", items: list[Any]) -> Any:
    """Return the requested entity's item of a list, the first by default."""
    number = model_input.entity or 0
    if number >= len(items):
        raise BadParameter(
            f"There is no entity {number}: the model found {len(items)} in this text. They count from 0."
        )
    return items[number]


# Four numbers per edge in the model's dtype: attention, weight in the latest flow, and the source of each.
_NUMBERS_PER_EDGE = 4


class InsideCache:
    """A cache of the latest inspected inputs, limited in bytes, with at least one.

    It is used in the thread of its model only.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._insides: OrderedDict[Hashable, Inside] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], "Inside"]) -> "Inside":
        """Return the inspected input of a key, made if it is not cached."""
        if key not in self._insides:
            self._insides[key] = make()
        self._insides.move_to_end(key)
        while len(self._insides) > 1 and self.estimate_bytes() > self._most:
            self._insides.popitem(last=False)
        return self._insides[key]

    def estimate_bytes(self) -> int:
        """Return an estimate of the bytes that the cached inputs may take."""
        return sum(_estimate_inside_bytes(inside) for inside in self._insides.values())

    def __len__(self) -> int:
        return len(self._insides)


def _estimate_inside_bytes(inside: "Inside") -> int:
    config = inside.loaded.model.config
    layers = getattr(config, "num_hidden_layers", None) or 1
    heads = getattr(config, "num_attention_heads", None) or 1
    wide = max(4, inside.loaded.dtype.itemsize)
    return int(layers) * int(heads) * len(inside.tokens) ** 2 * _NUMBERS_PER_EDGE * wide


# The page counts on without end; the pictures that whence ships come again and again.
_SAMPLE_IMAGE_PATTERN = re.compile(r"shapes:([0-9]{1,9})")
_MAX_BYTES = 256 * 10**6  # limit of all pictures together


class Pictures:
    """The uploaded pictures of a server, held in memory as encoded files."""

    def __init__(self, settings: Settings) -> None:
        self._kept = settings.kept
        self._lock = threading.Lock()
        self._reading = threading.Lock()  # a decoded picture may take 200 MB: one at a time
        self._files: dict[str, tuple[str, bytes]] = {}

    def add_upload(self, name: str, raw: bytes) -> dict[str, Any]:
        """Add an uploaded picture, and return its entry; drops the oldest beyond the limits."""
        name = clean_file_name(name)
        with self._reading:
            width, height = _read_image(raw, name).size
        with self._lock:
            key = build_unique_id(name, self._files)
            self._files[key] = (name, raw)
            while len(self._files) > self._kept or self._size() > _MAX_BYTES:
                del self._files[next(iter(self._files))]
        return {"id": key, "name": name, "width": width, "height": height}

    def get(self, key: str) -> "StoredImage":
        """Return a picture, decoded so that its name is never taken for a path."""
        if (sample := _SAMPLE_IMAGE_PATTERN.fullmatch(key)) is not None:
            from whence.data.images import SAMPLE_IMAGES

            return _decode_image(f"shapes:{int(sample[1]) % SAMPLE_IMAGES}", key)
        upload = self._files.get(key)
        if upload is None:
            raise NotFound(
                f"There is no picture {key[:100]!r} here: pictures stay as long as the app runs, and the oldest of "
                f"more than {self._kept}, or of {_MAX_BYTES // 10**6} MB, go. Bring it in again."
            )
        name, raw = upload
        return _decode_image(raw, name)

    def _size(self) -> int:
        return sum(len(raw) for _, raw in self._files.values())


def _decode_image(source: bytes | str, name: str) -> "StoredImage":
    from whence.data.example import StoredImage

    return StoredImage(_read_image(source, name), name)


def _read_image(source: bytes | str, name: str) -> "Image":
    """Return a decoded picture, by its content and not by its name's ending."""
    from whence.data.images import open_image

    return open_image(source, name)


# Loading imports modules: two threads at once would see partly initialised ones.
_LOAD_LOCK = threading.Lock()


class ServedModel:
    """A model of the server: its thread, state, explainer and inspected inputs."""

    def __init__(
        self,
        name: str,
        origin: str,
        place: int,
        settings: Settings,
        pictures: Pictures,
        failed: Callable[["ServedModel", Exception], None] = lambda model, error: None,
    ) -> None:
        self.id = name
        self.place = place
        self.worker = ModelWorker(name, settings.waiting)
        self.state: Literal["waiting", "loading", "ready", "failed"] = "waiting"
        self.origin = origin
        self._settings = settings
        self._pictures = pictures
        self._failed = failed  # called when loading fails
        self._explainer: Explainer | None = None
        self._inputs = InsideCache(settings.cache)
        self._facts: dict[str, Any] = {}
        self._error: dict[str, str] | None = None

    def explainer(self) -> "Explainer":
        """Return the explainer, loaded at first use; call it in the model's thread only."""
        if self._explainer is None:
            self.state, self._error = "loading", None
            try:
                self._explainer = self._load()
            except BaseException as failed:  # any error is reported to the waiting requests
                error = to_exception(failed)
                self._error, self.state = describe_error(error), "failed"
                self._failed(self, error)
                raise
            self.state = "ready"
        return self._explainer

    def inside(self, model_input: Input, reader: "Explainer | None" = None) -> "Inside":
        """Return the inspected input of a request, cached.

        `reader` is an explainer of the same model with another maximal length.
        """
        explainer = self.explainer() if reader is None else reader
        if explainer.loaded.task == "none":  # a comparison requests one label of both models
            model_input = model_input.model_copy(update={"target": None})
        key = (*build_input_key(model_input), explainer.loaded.max_length)
        return self._inputs.get(
            key,
            lambda: explainer.inside(
                self.resolve_input(model_input), **self.build_options_of_one(model_input)
            ),
        )

    def resolve_input(self, model_input: Input) -> Any:
        """Return the input as the explainer takes it."""
        return select_input(model_input, self.explainer().loaded, self._pictures)

    def build_options(self, model_input: Input) -> dict[str, Any]:
        """Return the options of a request as arguments of `explain`."""
        return build_explain_options(model_input, self.explainer().loaded, self._pictures)

    def build_options_of_one(self, model_input: Input) -> dict[str, Any]:
        """Return the options for a single output: for a tagger, those of the requested entity."""
        options = self.build_options(model_input)
        if entities := find_entities(self, model_input):
            options["at"] = select_entity(model_input, entities).tokens
        return options

    def to_entry(self) -> dict[str, Any]:
        """Return the entry of the model in the page's list."""
        unknown: dict[str, Any] = {
            **dict.fromkeys(
                ("kind", "task", "modality", "layers", "heads", "longest", "attention")
            ),
            "labels": [],
            "pairs": False,
            "takes_pairs": None,
        }
        samples = _list_samples(self.origin, self._facts)
        return {
            **unknown,
            **self._facts,
            **samples,
            "id": self.id,
            "state": self.state,
            "name": self.id if Path(self.origin).is_absolute() else self.origin,
            "error": self._error,
        }

    def _load(self) -> "Explainer":
        settings = self._settings
        with _LOAD_LOCK:
            from whence.explain.examine import describe_model_options
            from whence.explain.explainer import load

            explainer = load(self.origin, device=settings.device, dtype=settings.dtype)
        self._facts = describe_model_options(explainer)
        return explainer


def _list_samples(origin: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's own samples and method; empty if the general samples suit it."""
    example = BUILTIN_EXAMPLES.get(origin)
    if example is not None:
        samples = [{"text": example.text, "pair": None}]
        return {"samples": samples, **({"method": example.method} if example.method else {})}
    if facts.get("reads_pairs") or (facts.get("pairs") and facts.get("task") != "answer"):
        return {"samples": [{"text": text, "pair": pair} for text, pair in PAIR_SAMPLES]}
    return {}


class ServedModels:
    """The models of a server, in the order they were given."""

    def __init__(self, settings: Settings, pictures: Pictures) -> None:
        self._settings = settings
        self._pictures = pictures
        self._models: dict[str, ServedModel] = {}
        self._added = 0
        self._lock = threading.Lock()
        for origin in dict.fromkeys((*settings.models, *(settings.compare or ()))):
            self._add(origin)
        self._n_initial = self._added

    def get(self, name: str) -> ServedModel:
        """Return a model by its id, or by the name or folder it was given as."""
        if name in self._models:
            return self._models[name]
        model: ServedModel | None = next((item for item in self if item.origin == name), None)
        if model is None:
            known = list(self._models)
            raise UnknownModel(
                f"There is no model {name[:100]!r} on the list.{suggest_name(name, known)} There are "
                f"{', '.join(known)}."
            )
        return model

    def find_id(self, name: str) -> str | None:
        """Return the id of the model given by this name or folder, or None."""
        from whence.models.model_files import BUILTIN

        if not name:
            return None
        path = Path(name).absolute()
        matches = [
            model for model in self if model.origin == name or Path(model.origin).absolute() == path
        ]
        matches += [
            model for model in self if format_public_name(model.origin, tuple(BUILTIN)) == name
        ]
        return matches[0].id if matches else None

    def get_or_add(self, name: str) -> ServedModel:
        """Return a model of the list; add it if --allow-load permits."""
        with self._lock:
            known = {model.origin: model for model in self._models.values()} | self._models
            if name in known:
                return known[name]
            if not self._settings.allow_load:
                raise NotAllowed(
                    f"The model {name[:100]!r} is not on the list that this app was given, and it was started "
                    "without --allow-load."
                )
            return self._add(name)

    def _forget(self, model: ServedModel, error: Exception) -> None:
        """Remove a model that could not be loaded, unless it was given at the start.

        Waiting requests fail with the error. This runs in the model's thread, before any other work.
        """
        if model.place >= self._n_initial:
            with self._lock:
                self._models.pop(model.id, None)
            model.worker.close(error)

    def __iter__(self) -> Any:
        return iter(list(self._models.values()))

    def _add(self, origin: str) -> ServedModel:
        # The id of a folder is its last part, so that links to the page work on other machines.
        name = short = Path(origin).name if Path(origin).is_dir() else origin
        number = 1
        while name in self._models:
            number += 1
            name = f"{short}-{number}"
        model = ServedModel(name, origin, self._added, self._settings, self._pictures, self._forget)
        self._added += 1
        self._models[name] = model
        return model


def select_input(model_input: Input, loaded: "LoadedModel", pictures: Pictures) -> Any:
    """Return the explained input: a picture, a text or a pair of texts."""
    if not loaded.takes_images and model_input.picture is not None:
        raise BadParameter(
            f"picture={model_input.picture!r} means nothing to {type(loaded.model).__name__}, which reads texts. Leave it "
            "out."
        )
    # A text given as a picture would be taken for a path.
    if loaded.takes_images and model_input.picture is None:
        raise BadParameter(
            f"{type(loaded.model).__name__} looks at pictures, and got none. Bring one in: PUT /api/pictures."
        )
    if model_input.picture is not None and not _is_text_against_image(model_input, loaded):
        return pictures.get(model_input.picture)
    return model_input.text if model_input.pair is None else (model_input.text, model_input.pair)


def build_explain_options(
    model_input: Input, loaded: "LoadedModel", pictures: Pictures
) -> dict[str, Any]:
    """Return the arguments of `explain` for a request; the explainer rejects those that do not fit."""
    options: dict[str, Any] = {
        "target": model_input.target,
        "of": model_input.of,
        "truncate": model_input.truncate,
        "at": _parse_position(model_input.at),
        "labels": model_input.labels or None,
        "template": model_input.template,
        "answer": model_input.answer,
    }
    if model_input.rather is not None:
        if model_input.answer is None:
            raise BadParameter("There is no answer to hold against the other. Give both.")
        options["answer"] = (model_input.answer, model_input.rather)
    if model_input.picture is not None and _is_text_against_image(model_input, loaded):
        options["image"] = pictures.get(model_input.picture)
    return options


def build_input_key(model_input: Input) -> tuple[Any, ...]:
    """Return the cache key of a request to one model."""
    fields = model_input.model_dump(exclude={"model", "labels"})
    return (*fields.values(), None if model_input.labels is None else tuple(model_input.labels))


def _is_text_against_image(model_input: Input, loaded: "LoadedModel") -> bool:
    """Return whether a text is explained by its similarity to a picture, not the picture itself."""
    return loaded.task == "similarity" and not model_input.labels and model_input.text.strip() != ""


def _parse_position(at: str | None) -> int | str | None:
    return int(at) if at is not None and at.isascii() and at.isdigit() else at
