"""Served models: loading on first use, request inputs, uploaded pictures and a cache of inspected inputs.

Each model is loaded and asked in its own thread. The cache holds the inputs asked about last, as many as fit
into a number of bytes, and at least one. Entities that a tagger finds are selected by their number.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from whence.app.error_responses import describe_error
from whence.app.jobs import ModelWorker
from whence.app.library import Shelf, clean_file_name, number_name
from whence.app.schema import Input, ModelEntry
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
from whence.core.progress import Progress
from whence.data.example import StoredImage
from whence.data.images import SAMPLE_IMAGES, open_image
from whence.explain.examine import describe_model_options
from whence.explain.explainer import Explainer, load
from whence.explain.explanation import Explanation
from whence.explain.inside import Inside
from whence.models.model_files import BUILTIN, BUILTIN_EXAMPLES

# Four numbers per edge in the model's dtype: attention, weight in the latest flow, and the source of each.
_NUMBERS_PER_EDGE = 4


class InsideCache:
    """A cache of the latest inspected inputs, limited in bytes, with at least one.

    It is used in the thread of its model only.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._insides: OrderedDict[Hashable, Inside] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Inside]) -> Inside:
        """Return the inspected input of a key, made if it is not cached."""
        if key not in self._insides:
            self._insides[key] = make()
        self._insides.move_to_end(key)
        while (
            len(self._insides) > 1
            and sum(map(_estimate_bytes, self._insides.values())) > self._most
        ):
            self._insides.popitem(last=False)
        return self._insides[key]

    def __len__(self) -> int:
        return len(self._insides)


def _estimate_bytes(inside: Inside) -> int:
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
        self._reading = threading.Lock()  # a decoded picture may take 200 MB: one at a time
        self._files: Shelf[tuple[str, bytes]] = Shelf(settings.kept, _MAX_BYTES)

    def add_upload(self, name: str, raw: bytes) -> dict[str, Any]:
        """Add an uploaded picture, and return its entry; drops the oldest beyond the limits."""
        name = clean_file_name(name)
        with self._reading:
            width, height = _decode_image(raw, name).read().size
        key = self._files.add(name, (name, raw), upload=True, size=len(raw))
        return {"id": key, "name": name, "width": width, "height": height}

    def get(self, key: str) -> StoredImage:
        """Return a picture, decoded so that its name is never taken for a path."""
        if (sample := _SAMPLE_IMAGE_PATTERN.fullmatch(key)) is not None:
            return _decode_image(f"shapes:{int(sample[1]) % SAMPLE_IMAGES}", key)
        upload = self._files.items.get(key)
        if upload is None:
            raise NotFound(
                f"There is no picture {key[:100]!r} here: pictures stay as long as the app runs, and the oldest of "
                f"more than {self._kept}, or of {_MAX_BYTES // 10**6} MB, go. Bring it in again."
            )
        name, raw = upload
        return _decode_image(raw, name)


def _decode_image(source: bytes | str, name: str) -> StoredImage:
    """Return a decoded picture, by its content and not by its name's ending."""
    return StoredImage(open_image(source, name), name)


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

    def explainer(self) -> Explainer:
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

    def explain(
        self,
        model_input: Input,
        methods: Sequence[str],
        progress: Progress,
        reader: Explainer | None = None,
    ) -> list[list[Explanation]]:
        """Return the explanations, one list for each output; `reader` as in `inside`."""
        explanations: Any = (reader or self.explainer()).explain(
            self.resolve_input(model_input),
            method=list(methods),
            progress=progress,
            **self.build_options(model_input),
        )
        groups: list[list[Explanation]] = explanations.group_by_input()
        return groups

    def inside(self, model_input: Input, reader: Explainer | None = None) -> Inside:
        """Return the inspected input of a request, cached.

        `reader` is an explainer of the same model with another maximal length.
        """
        explainer = reader or self.explainer()
        if explainer.loaded.task == "none":  # a comparison requests one label of both models
            model_input = model_input.model_copy(update={"target": None})
        key = (model_input.model_dump_json(exclude={"model"}), explainer.loaded.max_length)
        return self._inputs.get(key, lambda: self._inspect(model_input, explainer))

    def _inspect(self, model_input: Input, explainer: Explainer) -> Inside:
        return explainer.inside(
            self.resolve_input(model_input), **self.build_options_of_one(model_input)
        )

    def resolve_input(self, model_input: Input) -> Any:
        """Return the explained input: a picture, a text or a pair of texts."""
        loaded, picture = self.explainer().loaded, model_input.picture
        if not loaded.takes_images and picture is not None:
            raise BadParameter(
                f"picture={picture!r} means nothing to {type(loaded.model).__name__}, which reads texts. Leave it "
                "out."
            )
        # A text given as a picture would be taken for a path.
        if loaded.takes_images and picture is None:
            raise BadParameter(
                f"{type(loaded.model).__name__} looks at pictures, and got none. Bring one in: PUT /api/pictures."
            )
        if picture is not None and not self._holds_text_against_image(model_input):
            return self._pictures.get(picture)
        text, pair = model_input.text, model_input.pair
        return text if pair is None else (text, pair)

    def build_options(self, model_input: Input) -> dict[str, Any]:
        """Return the options of a request as arguments of `explain`, which rejects those that do not fit."""
        at = model_input.at
        options: dict[str, Any] = {
            "target": model_input.target,
            "of": model_input.of,
            "truncate": model_input.truncate,
            "at": int(at) if at is not None and at.isascii() and at.isdigit() else at,
            "labels": model_input.labels or None,
            "template": model_input.template,
            "answer": model_input.answer,
        }
        if model_input.rather is not None:
            if model_input.answer is None:
                raise BadParameter("There is no answer to hold against the other. Give both.")
            options["answer"] = (model_input.answer, model_input.rather)
        if model_input.picture is not None and self._holds_text_against_image(model_input):
            options["image"] = self._pictures.get(model_input.picture)
        return options

    def _holds_text_against_image(self, model_input: Input) -> bool:
        """Return whether a text is explained by its similarity to a picture, not the picture itself."""
        is_similarity = self.explainer().loaded.task == "similarity"
        return is_similarity and not model_input.labels and model_input.text.strip() != ""

    def build_options_of_one(self, model_input: Input) -> dict[str, Any]:
        """Return the options for a single output: for a tagger, those of the requested entity."""
        options = self.build_options(model_input)
        if entities := self.find_entities(model_input):
            options["at"] = select_entity(model_input, entities).tokens
        return options

    def find_entities(self, model_input: Input) -> list[Any]:
        """Return the entities of a tagger's input; empty for a request about one position."""
        explainer = self.explainer()
        if explainer.loaded.task != "tags" or self.build_options(model_input)["at"] is not None:
            return []
        source = self.resolve_input(model_input)
        return list(explainer.entities(source, truncate=model_input.truncate))

    def to_entry(self) -> dict[str, Any]:
        """Return the entry of the model in the page's list."""
        required = (name for name, field in ModelEntry.model_fields.items() if field.is_required())
        return {
            **dict.fromkeys(required),  # not known before the model is loaded
            "labels": [],
            "pairs": False,
            **self._facts,
            **_list_samples(self.origin, self._facts),
            "id": self.id,
            "state": self.state,
            "name": self.id if Path(self.origin).is_absolute() else self.origin,
            "error": self._error,
        }

    def _load(self) -> Explainer:
        settings = self._settings
        with _LOAD_LOCK:
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
        if (model := self._find(name)) is not None:
            return model
        known = list(self._models)
        raise UnknownModel(
            f"There is no model {name[:100]!r} on the list.{suggest_name(name, known)} There are "
            f"{', '.join(known)}."
        )

    def _find(self, name: str) -> ServedModel | None:
        by_origin = (model for model in self if model.origin == name)
        return self._models.get(name) or next(by_origin, None)

    def find_id(self, name: str) -> str | None:
        """Return the id of the model given by this name or folder, or None."""
        if not name:
            return None
        path = Path(name).absolute()
        same = [model.id for model in self if Path(model.origin).absolute() == path]
        public = [m.id for m in self if format_public_name(m.origin, tuple(BUILTIN)) == name]
        return next(iter(same + public), None)

    def get_or_add(self, name: str) -> ServedModel:
        """Return a model of the list; add it if --allow-load permits."""
        with self._lock:
            if (model := self._find(name)) is not None:
                return model
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

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(list(self._models.values()))

    def _add(self, origin: str) -> ServedModel:
        # The id of a folder is its last part, so that links to the page work on other machines.
        short = Path(origin).name if Path(origin).is_dir() else origin
        name = number_name(short, self._models)
        model = ServedModel(name, origin, self._added, self._settings, self._pictures, self._forget)
        self._added += 1
        self._models[name] = model
        return model


def select_entity(model_input: Input, items: list[Any]) -> Any:
    """Return the requested entity's item of a list, the first by default."""
    number = model_input.entity or 0
    if number >= len(items):
        raise BadParameter(
            f"There is no entity {number}: the model found {len(items)} in this text. They count from 0."
        )
    return items[number]
