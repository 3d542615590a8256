"""Stored runs: the list, the report of one or of two, files of it, and rows."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import HTMLResponse, Response

from whence.core.errors import BadRequest
from whence.web import runrows
from whence.web.desk import At, Desk
from whence.web.guards import PAGE_POLICY
from whence.web.runs import whole
from whence.web.schema.runs import RunExample, RunRows, Runs

router = APIRouter(prefix="/runs", tags=["runs"])

Format = Literal["html", "md", "tex", "json"]
_MEDIA: dict[Format, str] = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "tex": "application/x-tex; charset=utf-8",
    "json": "application/json",
}
Other = Annotated[
    str | None, Query(max_length=300, description="The id of a second run, to compare it with.")
]
Short = Annotated[str | None, Query(max_length=300)]


@router.get("", response_model=Runs)
def runs(desk: At) -> Any:
    """List the runs that are in the folder now, also those that are being written."""
    listed = desk.runs.listed()
    for entry in listed["runs"]:
        entry["asks"] = desk.models.named(entry["model"])
    return listed


@router.get(
    "/{id}/page",
    response_class=Response,
    responses={
        200: {
            "content": {"text/html": {"schema": {"type": "string"}}},
            "description": "A page without script.",
        }
    },
)
def page(id: str, desk: At, other: Other = None) -> HTMLResponse:
    """Give whence's report of a run, or of two side by side; no script runs in it."""
    headers = {"content-security-policy": PAGE_POLICY, "x-frame-options": "SAMEORIGIN"}
    return HTMLResponse(_report(desk, id, other, "html"), headers=headers)


@router.get(
    "/{id}/report",
    response_class=Response,
    responses={
        200: {
            "content": {kind.split(";")[0]: {} for kind in _MEDIA.values()},
            "description": "The report as a file.",
        }
    },
)
def report(id: str, desk: At, format: Format = "html", other: Other = None) -> Response:
    """Give the report as a file to keep: HTML, Markdown, LaTeX or JSON."""
    content = _report(desk, id, other, format)
    name = id if other is None else f"{id}-and-{other}"
    headers = {
        # Ids hold nothing that means something here.
        "content-disposition": f'attachment; filename="{name[:150]}.{format}"',
        "content-security-policy": PAGE_POLICY,
    }
    return Response(content, media_type=_MEDIA[format], headers=headers)


@router.get("/{id}/rows", response_model=RunRows)
def rows(
    id: str,
    desk: At,
    method: Short = None,
    failed: bool | None = None,
    search: Annotated[str, Query(max_length=300)] = "",
    metric: Short = None,
    order: Literal["data", "best", "worst"] = "data",
    page: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> Any:
    """Give a page of rows that are written, out of the files; by a metric's value, the best or the worst first."""
    from whence.run.store.browse import Wanted

    if order != "data" and metric is None:
        raise BadRequest(f"order: {order!r} needs a metric to go by.")
    falling = None if order == "data" or metric is None else runrows.falls(metric, order == "best")
    run = desk.runs.run(id)
    with whole(id):
        wanted = Wanted(method, failed, search.strip(), metric, falling)
        return runrows.rows(run, wanted, page)


@router.get("/{id}/rows/{row}", response_model=RunExample)
def example(id: str, row: Annotated[int, Path(ge=0)], desk: At, method: Short = None) -> Any:
    """Give one row of the data as a method explained it, word by word."""
    run = desk.runs.run(id)
    with whole(id):
        return runrows.example(run, row, method)


def _report(desk: Desk, id: str, other: str | None, format: Format) -> str:
    ids = (id,) if other is None else (id, other)
    written = {"html": "to_html", "md": "to_markdown", "tex": "to_latex", "json": "to_json"}[format]

    def made(run: Any, *others: Any) -> str:
        return str(getattr(run.report(*others), written)())

    return str(desk.runs.made(ids, format, made))


"""The addresses of the server, one file per subject."""


"""Data sets that are brought in."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool

from whence.web.desk import At
from whence.web.schema.data import ColumnsAsked, DataSet

router = APIRouter(tags=["data"])

Name = Annotated[str, Query(min_length=1, max_length=200, description="The name of the file.")]
Column = Annotated[str | None, Query(max_length=200, description="The column of it.")]
RAW: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.put("/data", response_model=DataSet, openapi_extra=RAW)
async def bring(
    name: Name,
    request: Request,
    desk: At,
    text: Column = None,
    pair: Column = None,
    label: Column = None,
) -> Any:
    """Take a data set: the bytes of a file whose name's ending says what it is."""
    raw = await request.body()
    columns = {"text": text, "pair": pair, "label": label}
    return await run_in_threadpool(desk.data.bring, name, raw, columns)


@router.post("/data/{id}/columns", response_model=DataSet)
async def columns(id: str, asked: ColumnsAsked, desk: At) -> Any:
    """Read a data set anew, by other columns."""
    return await run_in_threadpool(desk.data.read_anew, id, asked.model_dump())


"""Quick questions about one input: they wait for their model, and are answered at once."""

from typing import Any

from fastapi import APIRouter, Request, Response

from whence.web import asking
from whence.web.desk import At
from whence.web.schema.compare import CompareAsked, Compared
from whence.web.schema.explain import ExplainAsked, Explanations
from whence.web.schema.flow import Flow, FlowAsked, Heads, HeadsAsked, TensorsAsked

router = APIRouter(tags=["explain"])


@router.post("/explain", response_model=Explanations)
async def explain(asked: ExplainAsked, desk: At, request: Request) -> Any:
    """Explain one input by one method or several."""
    return await desk.ask(
        request, "explain", asked.input.model, lambda model, go: asking.explained(model, asked, go)
    )


@router.post("/flow", response_model=Flow)
async def flow(asked: FlowAsked, desk: At, request: Request) -> Any:
    """Trace what flowed through the model for one input."""
    return await desk.ask(
        request, "flow", asked.input.model, lambda model, go: asking.flow(model, asked, go)
    )


@router.post("/heads", response_model=Heads)
async def heads(asked: HeadsAsked, desk: At, request: Request) -> Any:
    """Give one number for each head; "ablation" is a job instead."""
    asking.not_quick(asked)
    return await desk.ask(
        request, "heads", asked.input.model, lambda model, go: asking.heads(model, asked, go)
    )


@router.post(
    "/tensors",
    response_class=Response,
    responses={
        200: {
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
            "description": "The arrays as safetensors.",
        }
    },
)
async def tensors(asked: TensorsAsked, desk: At, request: Request) -> Response:
    """Give attention in bulk: single maps in float32, or all of them as thumbnails."""
    return await desk.ask(
        request,
        "tensors",
        asked.input.model,
        lambda model, go: asking.tensors(model, asked.input, asked.keys),
    )


@router.post("/compare", response_model=Compared)
async def compare(asked: CompareAsked, desk: At, request: Request) -> Any:
    """Hold two models against each other on one input."""
    return await desk.ask_both(
        request, "compare", asked.a, asked.b, lambda a, b, go: asking.compared(a, b, asked, go)
    )


"""Long work: begun here, watched here, cancelled here."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from whence.web import asking, surveys
from whence.web.desk import At
from whence.web.events import events as stream
from whence.web.schema.compare import CompareDataAsked
from whence.web.schema.data import HabitsAsked, PredictAsked, WordsAsked
from whence.web.schema.explain import TrustAsked
from whence.web.schema.flow import HeadsAsked, VerifyAsked
from whence.web.schema.generate import GenerateAsked
from whence.web.schema.session import Job

router = APIRouter(prefix="/jobs", tags=["jobs"])


@router.post("/trust", status_code=202, response_model=Job)
async def trust(asked: TrustAsked, desk: At) -> Any:
    """Test explanations on this very input."""
    return desk.begin(
        "trust", asked.input.model, lambda model, go: asking.trusted(model, asked, go)
    )


@router.post("/verify", status_code=202, response_model=Job)
async def verify(asked: VerifyAsked, desk: At) -> Any:
    """Knock edges out, and as many random ones."""
    return desk.begin(
        "verify", asked.input.model, lambda model, go: asking.verified(model, asked, go)
    )


@router.post("/generate", status_code=202, response_model=Job)
async def generate(asked: GenerateAsked, desk: At) -> Any:
    """Let a language model go on, and explain each token of what it writes."""
    return desk.begin(
        "generate", asked.input.model, lambda model, go: asking.generated(model, asked, go)
    )


@router.post("/heads", status_code=202, response_model=Job)
async def heads(asked: HeadsAsked, desk: At) -> Any:
    """Give one number for each head, also where the model has to run for each."""
    return desk.begin("heads", asked.input.model, lambda model, go: asking.heads(model, asked, go))


@router.post("/compare", status_code=202, response_model=Job)
async def compare(asked: CompareDataAsked, desk: At) -> Any:
    """Compare two models over a data set."""
    given = desk.data.get(asked.data)
    return desk.begin_both(
        "compare",
        asked.a,
        asked.b,
        lambda a, b, go: surveys.comparison(a, b, given, asked, go),
    )


@router.post("/predict/{data}", status_code=202, response_model=Job)
async def predict(data: str, asked: PredictAsked, desk: At) -> Any:
    """Predict a data set."""
    given = desk.data.get(data)
    return desk.begin(
        "predict", asked.model, lambda model, go: surveys.predicted(model, given, asked, go)
    )


@router.post("/words/{data}", status_code=202, response_model=Job)
async def words(data: str, asked: WordsAsked, desk: At) -> Any:
    """Find the words that each class leans on."""
    given = desk.data.get(data)
    return desk.begin(
        "words", asked.model, lambda model, go: surveys.leaning(model, given, asked, go)
    )


@router.post("/habits/{data}", status_code=202, response_model=Job)
async def habits(data: str, asked: HabitsAsked, desk: At) -> Any:
    """Find what heads attend to."""
    given = desk.data.get(data)
    return desk.begin(
        "habits", asked.model, lambda model, go: surveys.habits(model, given, asked, go)
    )


@router.get("/{id}", response_model=Job)
async def job(id: str, desk: At) -> Any:
    """Say where a job stands, and what came of it."""
    return desk.jobs.told(id)


@router.delete("/{id}", response_model=Job)
async def cancel(id: str, desk: At) -> Any:
    """Cancel a job, queued or running."""
    return desk.jobs.cancel(id)


@router.get(
    "/{id}/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
            "description": "The job without its result, each time something changed.",
        }
    },
)
async def events(id: str, desk: At) -> StreamingResponse:
    """Tell of a job's progress until it has ended."""
    desk.jobs.told(id)  # one that is not there is an error, not a stream
    return StreamingResponse(
        stream(lambda: desk.jobs.told(id, result=False)), media_type="text/event-stream"
    )


"""The page itself: the files that were built from web/, out of the package."""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from fastapi.responses import Response

from whence.core.errors import CannotServe, NotFound

router = APIRouter(include_in_schema=False)

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}


def built() -> Traversable:
    """Return the folder of the built page, or say how to build it."""
    folder = files("whence.web") / "static"
    if not (folder / "index.html").is_file():
        raise CannotServe(
            "The page has not been built: whence/web/static/index.html is missing. Run `npm ci && npm run build` in "
            "web/, or install whence from a wheel."
        )
    return folder


@router.get("/")
def index(request: Request) -> Response:
    """Give the page."""
    return _file("index.html", request)


@router.get("/{name}")
def part(name: str, request: Request) -> Response:
    """Give a script, a style or a picture of the page."""
    return _file(name, request)


def _file(name: str, request: Request) -> Response:
    # By name out of what is there: no path is ever made of what was asked for.
    found = {one.name: one for one in built().iterdir() if one.is_file()}
    media = _TYPES.get(name.rpartition(".")[2])
    if name not in found or media is None:
        raise NotFound(f"There is nothing at /{name[:100]}.")
    content = found[name].read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    # Checked each time, so that a page never meets the script of another version.
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media, headers=headers)


"""Pictures that are brought in."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from whence.web.desk import At
from whence.web.routes.data import RAW, Name
from whence.web.schema.session import Picture

router = APIRouter(tags=["pictures"])


@router.put("/pictures", response_model=Picture, openapi_extra=RAW)
async def bring(name: Name, request: Request, desk: At) -> Any:
    """Take a picture: the bytes of a file, which say themselves what they are."""
    raw = await request.body()
    return await run_in_threadpool(desk.pictures.bring, name, raw)


"""Stored results: the list, the JSON, and whence's own page of each."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response

from whence.web.desk import At
from whence.web.guards import PAGE_POLICY
from whence.web.routes.data import Name
from whence.web.schema.session import Results, StoredResult

router = APIRouter(prefix="/results", tags=["results"])
_RAW: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


@router.get("", response_model=Results)
async def results(desk: At) -> Any:
    """List the stored results."""
    return desk.results.listed()


@router.put("", response_model=StoredResult, openapi_extra=_RAW)
async def bring(name: Name, request: Request, desk: At) -> Any:
    """Take a stored result: the JSON that whence wrote."""
    raw = await request.body()
    return await run_in_threadpool(desk.results.bring, name, raw)


@router.get("/{id}", response_model=dict[str, Any])
async def result(id: str, desk: At) -> Any:
    """Give a stored result as it was written."""
    return desk.results.get(id)


@router.get(
    "/{id}/page",
    response_class=Response,
    responses={
        200: {
            "content": {"text/html": {"schema": {"type": "string"}}},
            "description": "A page without script.",
        }
    },
)
def page(id: str, desk: At) -> HTMLResponse:
    """Give whence's page of a stored result; no script runs in it."""
    headers = {"content-security-policy": PAGE_POLICY, "x-frame-options": "SAMEORIGIN"}
    return HTMLResponse(desk.results.page(id), headers=headers)


"""What the server has: its models, its cards, and whether it is there."""

from typing import Any

from fastapi import APIRouter, Request

from whence.web.desk import At
from whence.web.schema.session import Health, Help, LoadAsked, ModelEntry, Session

router = APIRouter(tags=["session"])


@router.get("/session", response_model=Session)
async def session(desk: At) -> Any:
    """What this server offers."""
    return desk.session()


@router.get("/health", response_model=Health)
async def health(desk: At) -> Any:
    """Whether the server is there, and since when."""
    return {"ok": True, "started": desk.started}


@router.get("/help", response_model=Help)
async def help_cards(desk: At) -> Any:
    """Every card of methods, metrics, experiments and edge weights."""
    return {"cards": desk.help}


@router.post("/models", response_model=ModelEntry)
async def load(asked: LoadAsked, desk: At, request: Request) -> Any:
    """Load a model now; one that is not on the list only with --allow-load."""
    return await desk.load(request, asked.name)
