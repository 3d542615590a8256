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
