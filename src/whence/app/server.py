"""The FastAPI application: routes, middleware, error handlers, and the timeout of idle connections.

Nothing is global: all state of a server is its `AppState`. Idle connections are closed, so
that they cannot exhaust the server.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from whence._version import __version__
from whence.app import error_responses, routes
from whence.app.schema import Failure
from whence.app.security import SecurityMiddleware
from whence.app.settings import Settings
from whence.app.state import AppState, LoadFailureCallback

_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Failure, "description": "What was asked cannot be done."},
    "5XX": {"model": Failure, "description": "The server could not do it, or not now."},
}

# Texts stay on this machine even if the environment configures exporters; older FastAPI has none.
_NO_TELEMETRY: Any = dict.fromkeys(
    ("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False
)


def create_app(
    settings: Settings | None = None, failed: LoadFailureCallback | None = None
) -> FastAPI:
    """Return the application of one server; its `AppState` is `app.state.app_state`.

    `failed` is called with the error if the first model, loaded at the start, cannot be loaded.
    """
    settings = Settings() if settings is None else settings
    state = AppState(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state.preload(failed)
        yield
        state.close()

    app = build_api(lifespan)
    app.state.app_state = state
    app.add_middleware(SecurityMiddleware, settings=settings)
    return app


def build_api(lifespan: Any = None) -> FastAPI:
    """Return the application with routes and schemas but without state, as openapi.json needs it."""
    app = FastAPI(
        title="whence",
        version=__version__,
        description="Explanations, flows, trust and comparisons of Transformers.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        responses=_ERROR_RESPONSES,
        lifespan=lifespan,
        telemetry=_NO_TELEMETRY,
    )
    for router in (
        routes.session_router,
        routes.explain_router,
        routes.jobs_router,
        routes.data_router,
        routes.pictures_router,
        routes.results_router,
        routes.runs_router,
    ):
        app.include_router(router, prefix="/api")
    app.include_router(routes.page_router)
    error_responses.install_error_handlers(app)
    return app


IDLE_SECONDS = 30.0  # a connection without a request is closed after this time
MAX_CONNECTIONS = 200  # above this number idle connections are closed


class IdleTimeoutProtocol(H11Protocol):
    """The HTTP protocol that closes idle connections, at once if there are too many."""

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, close idle ones above the limit, and start the idle timer."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            for other in list(self.connections):
                if other is not self and isinstance(other, IdleTimeoutProtocol):
                    other.close_if_idle()
        self._waiting: asyncio.TimerHandle = self.loop.call_later(
            IDLE_SECONDS, self._close_if_silent
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the idle timer of a closed connection."""
        self._waiting.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        """Close a connection without any request; after one, uvicorn's keep-alive timeout applies."""
        cycle: Any = self.cycle  # None before the first request, against its type
        if cycle is None:
            self.transport.close()

    def close_if_idle(self) -> None:
        """Close the connection unless a request is being answered on it."""
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self.transport.close()
