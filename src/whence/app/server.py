"""The application: routes, guards, errors and one desk, with nothing global."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from whence._version import __version__
from whence.web import errors
from whence.web.desk import Desk, Failed
from whence.web.guards import Guard
from whence.web.routes import data, explain, jobs, page, pictures, results, runs, session
from whence.web.schema.base import Failure
from whence.web.settings import Settings

_FAILS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Failure, "description": "What was asked cannot be done."},
    "5XX": {"model": Failure, "description": "The server could not do it, or not now."},
}

# Texts stay on this machine, whatever exporters the environment names; earlier fastapi has none.
_SILENT: Any = dict.fromkeys(
    ("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False
)


def create_app(settings: Settings | None = None, failed: Failed | None = None) -> FastAPI:
    """Make the application of one server; its desk is at `app.state.desk`.

    `failed` is told if the first model, which is loaded before anybody asks, cannot be loaded.
    """
    settings = Settings() if settings is None else settings
    desk = Desk(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        desk.warm(failed)
        yield
        desk.close()

    app = described(lifespan)
    app.state.desk = desk
    app.add_middleware(Guard, settings=settings)
    return app


def described(lifespan: Any = None) -> FastAPI:
    """Return the application as far as its description goes: addresses and shapes, without a desk."""
    app = FastAPI(
        title="whence",
        version=__version__,
        description="Explanations, flows, trust and comparisons of Transformers.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        responses=_FAILS,
        lifespan=lifespan,
        telemetry=_SILENT,
    )
    for room in (session, explain, jobs, data, pictures, results, runs):
        app.include_router(room.router, prefix="/api")
    app.include_router(page.router)
    errors.install(app)
    return app


"""The connections of a server: those on which nobody asks anything are closed, so that they cannot use up all."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 30.0  # until a connection must have asked something
MOST = 200  # connections at once, before idle ones are closed


class ImpatientProtocol(H11Protocol):
    """HTTP over a connection that is closed if nobody asks on it, at once where there are too many."""

    def connection_made(self, transport: Any) -> None:
        """Take a connection, make room for it if need be, and begin to wait."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            for other in list(self.connections):
                if other is not self and isinstance(other, ImpatientProtocol):
                    other.close_if_idle()
        self._waiting: asyncio.TimerHandle = self.loop.call_later(SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._waiting.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        """Close a connection on which nothing was asked; one that has asked is waited for as long as it is kept."""
        cycle: Any = self.cycle  # None until something was asked, whatever its type says
        if cycle is None:
            self.transport.close()

    def close_if_idle(self) -> None:
        """Close the connection unless a request is being answered on it."""
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self.transport.close()
