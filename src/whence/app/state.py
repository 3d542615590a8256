"""AppState: models, data, results, runs and jobs of one server, and the dispatch of requests to model threads.

A request waits as long as its client does and the time limit allows. The progress of a job is sent as
server-sent events.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import Response
from safetensors.numpy import save

from whence._version import __version__
from whence.app.answers import Answer, list_cards, list_model_ids
from whence.app.jobs import END_STATES, Cancelled, Jobs, Work, WorkItem
from whence.app.library import DataSets, StoredResults, StoredRuns
from whence.app.models import Pictures, ServedModel, ServedModels
from whence.app.schema import Job
from whence.app.settings import TASK_SAMPLES, Settings
from whence.core.errors import Busy
from whence.core.progress import Progress

_POLL_SECONDS = 0.5  # interval of checks whether the client is still connected

LoadFailureCallback = Callable[[Exception], None]


class AppState:
    """The state of one server: models, data, results, runs and jobs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # The random part distinguishes a restart within the same second.
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.started = f"{now} {uuid.uuid4().hex[:8]}"
        self.pictures = Pictures(settings)
        self.models = ServedModels(settings, self.pictures)
        self.data = DataSets(settings)
        self.results = StoredResults(settings)
        self.runs = StoredRuns(settings.runs)
        self.jobs = Jobs(settings.kept)
        self.help = list_cards()  # also fills the registries before threads use them

    def session(self) -> dict[str, Any]:
        """Return the models, data sets, samples and limits of this server."""
        settings = self.settings
        compare = settings.compare
        return {
            "version": __version__,
            "started": self.started,
            "models": [model.to_entry() for model in self.models],
            "compare": compare and tuple(self.models.get(name).id for name in compare),
            "data": self.data.list_entries(),
            "samples": [
                *({"text": text, "pair": None} for text in settings.samples),
                *({"task": task, "text": text, "pair": pair} for task, text, pair in TASK_SAMPLES),
            ],
            "allow_load": settings.allow_load,
            "limits": settings.describe_limits(),
        }

    async def ask(self, request: Request, kind: str, body: Any, answer: Answer) -> Any:
        """Return the response of a quick request."""
        model, work = self._build_work(kind, body, answer)
        return await self._wait_for_answer(
            request, model, kind, lambda progress: _serialise_answer(work(progress))
        )

    def begin(self, kind: str, body: Any, answer: Answer, **more: Any) -> Job:
        """Queue a job, and return its state."""
        model, work = self._build_work(kind, body, partial(answer, **more))
        return self.jobs.begin(model.worker, kind, work).describe()

    async def load(self, request: Request, name: str) -> dict[str, Any]:
        """Load a model of the list, or another if that is allowed, and return its entry."""
        model = self.models.get_or_add(name)

        await self._wait_for_answer(request, model, "load", lambda progress: model.explainer())
        return model.to_entry()

    def preload(self, failed: LoadFailureCallback | None = None) -> None:
        """Load the first model in its thread; call `failed` with the error if that fails."""
        first = next(iter(self.models))

        def report_failure(loading: Future[Any]) -> None:
            error = loading.exception()
            if failed is not None and isinstance(error, Exception) and first.state == "failed":
                failed(error)

        task = first.worker.put("load", lambda progress: first.explainer(), quick=True)
        task.future.add_done_callback(report_failure)

    def close(self, seconds: float = 1.0) -> bool:
        """Cancel all work, and return whether all threads have ended in time."""
        workers = [model.worker for model in self.models]
        for worker in workers:
            worker.close()
        until = time.monotonic() + seconds
        ended = [worker.join(max(0.0, until - time.monotonic())) for worker in workers]
        return all(ended)

    def _build_work(self, kind: str, body: Any, answer: Answer) -> tuple[ServedModel, Work]:
        """Return the model in whose thread a request is answered, the first of two, and the work."""
        models = [self.models.get(name) for name in list_model_ids(body)]
        first, last = sorted((models[0], models[-1]), key=lambda model: model.place)

        def work(progress: Progress) -> Any:
            if first is last:
                return answer(*models, body, progress)
            with last.worker.lend(kind, lambda: progress(0, 0)):
                return answer(*models, body, progress)

        return first, work

    async def _wait_for_answer(
        self, request: Request, model: ServedModel, kind: str, work: Work
    ) -> Any:
        """Return the result of work, while the client is connected and within the time limit."""
        task = model.worker.put(kind, work, quick=True)
        future = asyncio.wrap_future(task.future)
        until = time.monotonic() + self.settings.seconds
        try:
            while not future.done():
                left = until - time.monotonic()
                await asyncio.wait({future}, timeout=max(0.0, min(_POLL_SECONDS, left)))
                if future.done():
                    break
                if left <= 0:
                    raise Busy(self._describe_timeout(model, task))
                if await request.is_disconnected():
                    raise Busy("Nobody waits for the answer any more.")
            return future.result()
        except Cancelled:
            raise Busy("The server is stopping.") from None
        finally:
            if not future.done():
                future.cancel()
                task.cancel()

    def _describe_timeout(self, model: ServedModel, task: WorkItem) -> str:
        limit = f"{self.settings.seconds:g} seconds were not enough"
        busy = model.worker.current
        if busy is None or busy is task:
            return f"The model {model.id!r} could not answer in time: {limit}. Give a shorter text."
        how_far = f", {busy.done} of {busy.total}" if busy.total else ""
        return f"The model {model.id!r} is at work ({busy.kind}{how_far}): {limit} to wait for it."


def _serialise_answer(answer: Any) -> Response:
    """Return an answer as a response; runs in the model's thread, so the event loop does not wait."""
    if isinstance(answer, dict):
        return Response(save(answer), media_type="application/octet-stream")
    return Response(answer.model_dump_json(), media_type="application/json")


def _get_state(request: Request) -> AppState:
    state: AppState = request.app.state.app_state
    return state


AppStateDependency = Annotated[AppState, Depends(_get_state)]

_EVENT_SECONDS = 0.1  # interval of checks for a change
_KEEPALIVE_SECONDS = 15.0  # silence after which a comment keeps the connection open


async def stream_events(task: WorkItem) -> AsyncIterator[str]:
    """Yield a server-sent event at each change of a job, until it has ended."""
    last, last_sent = None, time.monotonic()
    while True:
        job = task.describe(result=False)
        content = job.model_dump(exclude={"remaining"})
        if content != last:
            yield f"data: {job.model_dump_json()}\n\n"
            last, last_sent = content, time.monotonic()
        elif time.monotonic() - last_sent > _KEEPALIVE_SECONDS:
            yield ": still there\n\n"
            last_sent = time.monotonic()
        if job.state in END_STATES:
            return
        await asyncio.sleep(_EVENT_SECONDS)
