"""All that one server has, and the way from a request to the thread of a model and back."""

import asyncio
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import Response
from pydantic import BaseModel

from whence._version import __version__
from whence.core.errors import Busy
from whence.web.help import cards
from whence.web.jobs import Cancelled, Jobs, Progress, Task
from whence.web.models import Model, Models
from whence.web.pictures import Pictures
from whence.web.results import StoredResults
from whence.web.runs import StoredRuns
from whence.web.settings import OTHERS, Settings
from whence.web.uploads import DataSets

_LOOK = 0.5  # seconds between two looks at whether the asker is still there

# What is run in the thread of a model, or of two; it returns an answer, or bytes.
One = Callable[[Model, Progress], Any]
Two = Callable[[Model, Model, Progress], Any]
Failed = Callable[[Exception], None]


class Desk:
    """Models, data, results, runs and jobs of one server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # A restart within a second is a restart, too.
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.started = f"{now} {uuid.uuid4().hex[:8]}"
        self.pictures = Pictures(settings)
        self.models = Models(settings, self.pictures)
        self.data = DataSets(settings)
        self.results = StoredResults(settings)
        self.runs = StoredRuns(settings.runs)
        self.jobs = Jobs(settings.kept)
        self.help = cards()  # also fills the registries, before threads do

    def session(self) -> dict[str, Any]:
        """Return what this server offers."""
        settings = self.settings
        compare = settings.compare
        return {
            "version": __version__,
            "started": self.started,
            "models": [model.entry() for model in self.models],
            "compare": compare and tuple(self.models.get(one).id for one in compare),
            "data": self.data.entries(),
            "samples": [
                *({"text": text, "pair": None} for text in settings.samples),
                *({"task": task, "text": text, "pair": pair} for task, text, pair in OTHERS),
            ],
            "allow_load": settings.allow_load,
            "limits": {
                "characters": settings.characters,
                "upload": settings.upload,
                "seconds": round(settings.seconds),
                "edges": settings.edges,
                "generated": settings.generated,
            },
        }

    async def ask(self, request: Request, kind: str, model: str, work: One) -> Response:
        """Put a quick question to a model, and answer with what it says."""
        asked = self.models.get(model)
        return await self._answer(
            request, asked, kind, lambda progress: _sent(work(asked, progress))
        )

    async def ask_both(self, request: Request, kind: str, a: str, b: str, work: Two) -> Response:
        """Put a quick question to two models."""
        lead, both = self._both(kind, a, b, work)
        return await self._answer(request, lead, kind, lambda progress: _sent(both(progress)))

    def begin(self, kind: str, model: str, work: One) -> dict[str, Any]:
        """Begin a job of a model."""
        asked = self.models.get(model)
        return self._begun(
            self.jobs.begin(asked.worker, kind, lambda progress: work(asked, progress))
        )

    def begin_both(self, kind: str, a: str, b: str, work: Two) -> dict[str, Any]:
        """Begin a job of two models."""
        lead, both = self._both(kind, a, b, work)
        return self._begun(self.jobs.begin(lead.worker, kind, both))

    async def load(self, request: Request, name: str) -> dict[str, Any]:
        """Load a model now, one of the list or, if that is allowed, another."""
        model = self.models.allowed(name)

        def load(progress: Progress) -> Response:
            model.explainer()
            return Response()

        await self._answer(request, model, "load", load)
        return model.entry()

    def warm(self, failed: Failed | None = None) -> None:
        """Load the first model before anybody asks; if it cannot be, say so at once."""
        first = next(iter(self.models))

        def ended(loading: Future[Any]) -> None:
            error = loading.exception()
            if failed is not None and isinstance(error, Exception) and first.state == "failed":
                failed(error)

        task = first.worker.put("load", lambda progress: first.explainer(), quick=True)
        task.future.add_done_callback(ended)

    def close(self, seconds: float = 1.0) -> bool:
        """Cancel all work, and say whether all threads have ended in time."""
        workers = [model.worker for model in self.models]
        for worker in workers:
            worker.close()
        until = time.monotonic() + seconds
        ended = [worker.join(max(0.0, until - time.monotonic())) for worker in workers]
        return all(ended)

    def _both(
        self, kind: str, a: str, b: str, work: Two
    ) -> tuple[Model, Callable[[Progress], Any]]:
        """Work in the thread of the model that comes first in the list, while the other's thread stands by."""
        one, two = self.models.get(a), self.models.get(b)
        lead, other = sorted((one, two), key=lambda model: model.place)

        def both(progress: Progress) -> Any:
            if lead is other:
                return work(one, two, progress)
            with other.worker.lent(kind, lambda: progress(0, 0)):
                return work(one, two, progress)

        return lead, both

    def _begun(self, task: Task) -> dict[str, Any]:
        return self.jobs.told(task.id)

    async def _answer(
        self, request: Request, model: Model, kind: str, work: Callable[[Progress], Any]
    ) -> Response:
        """Wait for an answer, as long as the asker does and the limit allows."""
        task = model.worker.put(kind, work, quick=True)
        future = asyncio.wrap_future(task.future)
        until = time.monotonic() + self.settings.seconds
        try:
            while not future.done():
                left = until - time.monotonic()
                await asyncio.wait({future}, timeout=max(0.0, min(_LOOK, left)))
                if future.done():
                    break
                if left <= 0:
                    raise Busy(self._late(model, task))
                if await request.is_disconnected():
                    raise Busy("Nobody waits for the answer any more.")
            answer: Response = future.result()
            return answer
        except Cancelled:
            raise Busy("The server is stopping.") from None
        finally:
            if not future.done():
                future.cancel()
                model.worker.cancel(task)

    def _late(self, model: Model, task: Task) -> str:
        limit = f"{self.settings.seconds:g} seconds were not enough"
        busy = model.worker.current
        if busy is None or busy is task:
            return f"The model {model.id!r} could not answer in time: {limit}. Give a shorter text."
        how_far = f", {busy.done} of {busy.total}" if busy.total else ""
        return f"The model {model.id!r} is at work ({busy.kind}{how_far}): {limit} to wait for it."


def _sent(answer: BaseModel | bytes) -> Response:
    """Write an answer out, still in the thread of the model: others need not wait for that."""
    if isinstance(answer, bytes):
        return Response(answer, media_type="application/octet-stream")
    return Response(answer.model_dump_json(), media_type="application/json")


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


At = Annotated[Desk, Depends(_desk)]


"""A job's progress as server-sent events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from whence.web.jobs import ENDED

_EVERY = 0.1  # seconds between two looks
_ALIVE = 15.0  # seconds of silence after which a comment keeps the connection open


async def events(told: Callable[[], dict[str, Any]]) -> AsyncIterator[str]:
    """Yield an event each time that something changed, until the job has ended."""
    last, spoken = None, time.monotonic()
    while True:
        now = told()
        news = {name: value for name, value in now.items() if name != "remaining"}
        if news != last:
            yield f"data: {json.dumps(now)}\n\n"
            last, spoken = news, time.monotonic()
        elif time.monotonic() - spoken > _ALIVE:
            yield ": still there\n\n"
            spoken = time.monotonic()
        if now["state"] in ENDED:
            return
        await asyncio.sleep(_EVERY)
