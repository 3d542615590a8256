"""The models that can be asked: those on the list, each loaded when it is first needed, in its own thread."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whence.core.errors import NotAllowed, UnknownModel, did_you_mean
from whence.core.failure import as_exception
from whence.core.places import public_name
from whence.models.catalogue import SAMPLES
from whence.web import found, question
from whence.web.errors import fault
from whence.web.inputs import Inputs
from whence.web.jobs import Worker
from whence.web.pictures import Pictures
from whence.web.schema.base import Input
from whence.web.settings import PAIRS, Settings

if TYPE_CHECKING:
    from whence.explainer import Explainer
    from whence.explainer.inside.inside import Inside

# Loading imports: two threads at once would see half-made modules.
_LOADING = threading.Lock()


class Model:
    """One model of the list."""

    def __init__(
        self,
        name: str,
        given: str,
        place: int,
        settings: Settings,
        pictures: Pictures,
        failed: Callable[["Model", Exception], None] = lambda model, error: None,
    ) -> None:
        self.id = name
        self.place = place
        self.worker = Worker(name, settings.waiting)
        self.state: Literal["waiting", "loading", "ready", "failed"] = "waiting"
        self.given = given
        self._settings = settings
        self._pictures = pictures
        self._failed = failed  # is told when it cannot be loaded
        self._explainer: Explainer | None = None
        self._inputs = Inputs(settings.cache)
        self._facts: dict[str, Any] = {}
        self._error: dict[str, str] | None = None

    def explainer(self) -> "Explainer":
        """Return the explainer, loaded now if it was not; in the model's thread only."""
        if self._explainer is None:
            self.state, self._error = "loading", None
            try:
                self._explainer = self._load()
            except (
                BaseException
            ) as failed:  # whatever it is, those who wait for the model hear of it
                error = as_exception(failed)
                self._error, self.state = fault(error), "failed"
                self._failed(self, error)
                raise
            self.state = "ready"
        return self._explainer

    def inside(self, asked: Input, reader: "Explainer | None" = None) -> "Inside":
        """Look inside the model on one input; what is known of it is used again.

        `reader` is an explainer of the same model that cuts texts elsewhere.
        """
        explainer = self.explainer() if reader is None else reader
        if explainer.loaded.task == "none":  # a comparison asks both of its models for one label
            asked = asked.model_copy(update={"target": None})
        key = (*question.key(asked), explainer.loaded.max_length)
        return self._inputs.get(
            key, lambda: explainer.inside(self.taken(asked), **self.about_one(asked))
        )

    def taken(self, asked: Input) -> Any:
        """Return the input as the explainer takes it."""
        return question.given(asked, self.explainer().loaded, self._pictures)

    def about(self, asked: Input) -> dict[str, Any]:
        """Return what is asked about it, as the explainer takes it."""
        return question.about(asked, self.explainer().loaded, self._pictures)

    def about_one(self, asked: Input) -> dict[str, Any]:
        """Return the same, where one thing at a time can be asked about: of a tagger, one that it found."""
        about = self.about(asked)
        if every := found.entities(self, asked):
            about["at"] = found.numbered(asked, every).tokens
        return about

    def entry(self) -> dict[str, Any]:
        """Return what the page's list says of it."""
        unknown: dict[str, Any] = {
            **dict.fromkeys(
                ("kind", "task", "modality", "layers", "heads", "longest", "attention")
            ),
            "labels": [],
            "pairs": False,
            "takes_pairs": None,
        }
        begun = _begun(self.given, self._facts)
        return {
            **unknown,
            **self._facts,
            **begun,
            "id": self.id,
            "state": self.state,
            "name": self.id if Path(self.given).is_absolute() else self.given,
            "error": self._error,
        }

    def _load(self) -> "Explainer":
        settings = self._settings
        with _LOADING:
            from whence.explainer import load
            from whence.explainer.offers import offers

            explainer = load(self.given, device=settings.device, dtype=settings.dtype)
        self._facts = offers(explainer)
        return explainer


def _begun(given: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the texts that a model opens with, and the method, where those of all models say nothing to it."""
    own = SAMPLES.get(given)
    if own is not None:
        samples = [{"text": own.text, "pair": None}]
        return {"samples": samples, **({"method": own.method} if own.method else {})}
    if facts.get("reads_pairs") or (facts.get("pairs") and facts.get("task") != "answer"):
        return {"samples": [{"text": text, "pair": pair} for text, pair in PAIRS]}
    return {}


class Models:
    """The list of models."""

    def __init__(self, settings: Settings, pictures: Pictures) -> None:
        self._settings = settings
        self._pictures = pictures
        self._models: dict[str, Model] = {}
        self._added = 0
        self._lock = threading.Lock()
        for given in dict.fromkeys((*settings.models, *(settings.compare or ()))):
            self._add(given)
        self._given = self._added

    def get(self, name: str) -> Model:
        """Return a model of the list by its id, or by what it was given as."""
        if name in self._models:
            return self._models[name]
        found: Model | None = next((one for one in self if one.given == name), None)
        if found is None:
            known = list(self._models)
            raise UnknownModel(
                f"There is no model {name[:100]!r} on the list.{did_you_mean(name, known)} There are "
                f"{', '.join(known)}."
            )
        return found

    def named(self, name: str) -> str | None:
        """Return the id of the model that was given by this name or folder, if one was."""
        from whence.models.catalogue import BUILTIN

        if not name:
            return None
        where = Path(name).absolute()
        same = [one for one in self if one.given == name or Path(one.given).absolute() == where]
        same += [one for one in self if public_name(one.given, tuple(BUILTIN)) == name]
        return same[0].id if same else None

    def allowed(self, name: str) -> Model:
        """Return a model of the list, or put it there if that is allowed."""
        with self._lock:
            known = {one.given: one for one in self._models.values()} | self._models
            if name in known:
                return known[name]
            if not self._settings.allow_load:
                raise NotAllowed(
                    f"The model {name[:100]!r} is not on the list that this app was given, and it was started "
                    "without --allow-load."
                )
            return self._add(name)

    def _forget(self, model: Model, error: Exception) -> None:
        """Take a model that could not be loaded off the list again, unless it was given at the start.

        Who waits for it hears why. That is done in its own thread, before anything else is tried there.
        """
        if model.place >= self._given:
            with self._lock:
                self._models.pop(model.id, None)
            model.worker.close(error)

    def __iter__(self) -> Any:
        return iter(list(self._models.values()))

    def _add(self, given: str) -> Model:
        # A folder goes by its last name: a link to the page then works on another machine, too.
        name = short = Path(given).name if Path(given).is_dir() else given
        number = 1
        while name in self._models:
            number += 1
            name = f"{short}-{number}"
        model = Model(name, given, self._added, self._settings, self._pictures, self._forget)
        self._added += 1
        self._models[name] = model
        return model


"""What a tagger found in a text: each such thing can be asked about by its number."""

from typing import TYPE_CHECKING, Any

from whence.core.errors import BadParameter

if TYPE_CHECKING:
    from whence.web.models import Model
    from whence.web.schema.base import Input


def is_every(model: "Model", asked: "Input") -> bool:
    """Say whether it is about everything that a tagger finds, rather than one place."""
    return model.explainer().loaded.task == "tags" and asked.at is None


def entities(model: "Model", asked: "Input") -> list[Any]:
    """Return what a tagger found, where it was asked about no one place."""
    if not is_every(model, asked):
        return []
    return list(model.explainer().entities(model.taken(asked), truncate=asked.truncate))


def numbered(asked: "Input", every: list[Any]) -> Any:
    """Return the one that is asked about."""
    number = asked.entity or 0
    if number >= len(every):
        raise BadParameter(
            f"There is no entity {number}: the model found {len(every)} in this text. They count from 0."
        )
    return every[number]


"""What was seen inside a model stays for the next question about the same input."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.explainer.inside.inside import Inside

# Of each edge four numbers, as wide as the model computes: its attention and what it weighs in the flow that was
# asked for last, and of both what they were made from.
_NUMBERS = 4


class Inputs:
    """The inputs that were asked about last, as many as fit into so many bytes, and at least one.

    Used in the thread of its model alone.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[Hashable, Inside] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], "Inside"]) -> "Inside":
        """Return what is known of an input, or look for the first time."""
        if key not in self._found:
            self._found[key] = make()
        self._found.move_to_end(key)
        while len(self._found) > 1 and self.size() > self._most:
            self._found.popitem(last=False)
        return self._found[key]

    def size(self) -> int:
        """How many bytes it may come to, as far as that is known."""
        return sum(_size(inside) for inside in self._found.values())

    def __len__(self) -> int:
        return len(self._found)


def _size(inside: "Inside") -> int:
    config = inside.loaded.model.config
    layers = getattr(config, "num_hidden_layers", None) or 1
    heads = getattr(config, "num_attention_heads", None) or 1
    wide = max(4, inside.loaded.dtype.itemsize)
    return int(layers) * int(heads) * len(inside.tokens) ** 2 * _NUMBERS * wide


"""Pictures: those that are brought in, and those that can be drawn."""

import re
import threading
from typing import TYPE_CHECKING, Any

from whence.core.errors import NotFound
from whence.web.settings import Settings
from whence.web.uploads import free_id, plain_name

if TYPE_CHECKING:
    from PIL.Image import Image

    from whence.data.sets.pictures import Stored

_DRAWN = re.compile(r"shapes:[0-9]{1,9}")
_BYTES = 256 * 10**6  # of all pictures together


class Pictures:
    """The pictures of a server. They stay in memory, as the files that they came as, and nowhere else."""

    def __init__(self, settings: Settings) -> None:
        self._kept = settings.kept
        self._lock = threading.Lock()
        self._reading = threading.Lock()  # unpacked, one may take 200 MB: one at a time
        self._found: dict[str, tuple[str, bytes]] = {}

    def bring(self, name: str, raw: bytes) -> dict[str, Any]:
        """Take a picture if it can be read; the oldest of too many goes."""
        name = plain_name(name)
        with self._reading:
            width, height = _read(raw, name).size
        with self._lock:
            key = free_id(name, self._found)
            self._found[key] = (name, raw)
            while len(self._found) > self._kept or self._size() > _BYTES:
                del self._found[next(iter(self._found))]
        return {"id": key, "name": name, "width": width, "height": height}

    def get(self, key: str) -> "Stored":
        """Return a picture as an explainer takes it: decoded, so that its name is never taken for a path."""
        if _DRAWN.fullmatch(key):
            return _named(key, key)
        found = self._found.get(key)
        if found is None:
            raise NotFound(
                f"There is no picture {key[:100]!r} here: pictures stay as long as the app runs, and the oldest of "
                f"more than {self._kept}, or of {_BYTES // 10**6} MB, go. Bring it in again."
            )
        name, raw = found
        return _named(raw, name)

    def _size(self) -> int:
        return sum(len(raw) for _, raw in self._found.values())


def _named(given: bytes | str, name: str) -> "Stored":
    from whence.data.sets.pictures import Stored

    return Stored(_read(given, name), name)


def _read(given: bytes | str, name: str) -> "Image":
    """Decode a file by the one door that all pictures come through; what its name says of it does not count."""
    from whence.data.vision.image import opened

    return opened(given, name)


"""From a request to what an explainer takes: the input itself, and what is asked about it."""

from typing import TYPE_CHECKING, Any

from whence.core.errors import BadParameter
from whence.web.pictures import Pictures
from whence.web.schema.base import Input

if TYPE_CHECKING:
    from whence.models import Loaded


def given(asked: Input, loaded: "Loaded", pictures: Pictures) -> Any:
    """Return what is explained: a picture, a text, or both of a pair."""
    if not loaded.sees and asked.picture is not None:
        raise BadParameter(
            f"picture={asked.picture!r} means nothing to {type(loaded.model).__name__}, which reads texts. Leave it "
            "out."
        )
    # A text in the place of a picture would be taken for the path of one.
    if loaded.sees and asked.picture is None:
        raise BadParameter(
            f"{type(loaded.model).__name__} looks at pictures, and got none. Bring one in: PUT /api/pictures."
        )
    if asked.picture is not None and not _is_beside(asked, loaded):
        return pictures.get(asked.picture)
    return asked.text if asked.pair is None else (asked.text, asked.pair)


def about(asked: Input, loaded: "Loaded", pictures: Pictures) -> dict[str, Any]:
    """Return what is asked about it; what does not fit the model's task the explainer refuses."""
    found: dict[str, Any] = {
        "target": asked.target,
        "of": asked.of,
        "truncate": asked.truncate,
        "at": _place(asked.at),
        "labels": asked.labels or None,
        "template": asked.template,
        "answer": asked.answer,
    }
    if asked.rather is not None:
        if asked.answer is None:
            raise BadParameter("There is no answer to hold against the other. Give both.")
        found["answer"] = (asked.answer, asked.rather)
    if asked.picture is not None and _is_beside(asked, loaded):
        found["image"] = pictures.get(asked.picture)
    return found


def key(asked: Input) -> tuple[Any, ...]:
    """Return what tells inputs of one model apart."""
    own = asked.model_dump(exclude={"model", "labels"})
    return (*own.values(), None if asked.labels is None else tuple(asked.labels))


def _is_beside(asked: Input, loaded: "Loaded") -> bool:
    """Say whether a text is explained that is held against a picture, rather than the picture itself."""
    return loaded.task == "similarity" and not asked.labels and asked.text.strip() != ""


def _place(at: str | None) -> int | str | None:
    return int(at) if at is not None and at.isascii() and at.isdigit() else at
