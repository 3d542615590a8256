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
