"""HTTP routes of the server: explain, flow, heads, trust, compare, jobs, uploads, results, runs, page files.

Quick requests wait for their model and are answered at once; long work is started as a job, watched through
server-sent events and cancelled by id. Function names become operation ids in openapi.json.
"""

from importlib.resources import files
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles

from whence.app import answers, library, schema
from whence.app.security import PAGE_POLICY
from whence.app.state import AppStateDependency
from whence.app.state import stream_events as stream
from whence.core.errors import BadParameter, BadRequest, CannotServe


def _describe_response(description: str, *media_types: str, **shape: str) -> dict[str, Any]:
    """Return the options of a route whose response is not JSON."""
    content = {media_type: {"schema": shape} if shape else {} for media_type in media_types}
    responses = {200: {"content": content, "description": description}}
    return {"response_class": Response, "responses": responses}


def _describe_body(media_type: str, **shape: str) -> dict[str, Any]:
    """Return the options of a route that reads the body of its request itself."""
    body = {"required": True, "content": {media_type: {"schema": shape}}}
    return {"name": "bring", "openapi_extra": {"requestBody": body}}


_PAGE = _describe_response("A page without script.", "text/html", type="string")
_PAGE_HEADERS = {"content-security-policy": PAGE_POLICY, "x-frame-options": "SAMEORIGIN"}
_BYTES = _describe_body("application/octet-stream", type="string", format="binary")

FileName = Annotated[str, Query(min_length=1, max_length=200, description="The name of the file.")]
ColumnName = Annotated[str | None, Query(max_length=200, description="The column of it.")]

data_router = APIRouter(tags=["data"])


@data_router.put("/data", response_model=schema.DataSet, **_BYTES)
async def upload_dataset(
    name: FileName,
    request: Request,
    state: AppStateDependency,
    text: ColumnName = None,
    pair: ColumnName = None,
    label: ColumnName = None,
) -> Any:
    """Upload a data set: the bytes of a file, whose name's ending gives the format."""
    columns = {"text": text, "pair": pair, "label": label}
    return await run_in_threadpool(state.data.add_upload, name, await request.body(), columns)


@data_router.post("/data/{id}/columns", response_model=schema.DataSet)
async def columns(id: str, body: schema.ColumnsRequest, state: AppStateDependency) -> Any:
    """Read a data set again, by other columns."""
    return await run_in_threadpool(state.data.reread, id, body.model_dump())


explain_router = APIRouter(tags=["explain"])
jobs_router = APIRouter(prefix="/jobs", tags=["jobs"])
_TENSORS = _describe_response(
    "The arrays as safetensors.", "application/octet-stream", type="string", format="binary"
)
_EVENTS = _describe_response(
    "The job without its result, each time something changed.", "text/event-stream", type="string"
)


def _add_question(name: str) -> None:
    """Add the route of a quick question, answered at once."""
    answer = answers.QUESTIONS[name]

    async def ask(body: Any, state: AppStateDependency, request: Request) -> Any:
        if name == "heads" and body.statistic == "ablation":
            raise BadParameter(
                "The statistic 'ablation' runs the model for each head: ask for it as a job, at /api/jobs/heads."
            )
        return await state.ask(request, name, body, answer)

    ask.__annotations__["body"] = answer.__annotations__["request"]
    response = {"response_model": answer.__annotations__["return"]}
    options = _TENSORS if name == "tensors" else response
    explain_router.post(f"/{name}", name=name, description=answer.__doc__, **options)(ask)


def _add_job(name: str, answer: answers.Answer, *, with_data: bool = False) -> None:
    """Add the route that starts a job; what is asked of one model about a data set has its id in the path."""

    async def begin(body: Any, state: AppStateDependency) -> Any:
        more = {"data": state.data.get(body.data)} if hasattr(body, "data") else {}
        return state.begin(name, body, answer, **more)

    async def begin_with_data(data: str, body: Any, state: AppStateDependency) -> Any:
        return state.begin(name, body, answer, data=state.data.get(data))

    endpoint = begin_with_data if with_data else begin
    endpoint.__annotations__["body"] = answer.__annotations__["request"]
    path = f"/{name}/{{data}}" if with_data else f"/{name}"
    jobs_router.post(
        path, name=name, description=answer.__doc__, status_code=202, response_model=schema.Job
    )(endpoint)


for _name in ("explain", "flow", "heads", "tensors", "compare"):
    _add_question(_name)
for _name in ("trust", "verify", "generate", "heads"):
    _add_job(_name, answers.QUESTIONS[_name])
_add_job("compare", answers.compare_over_dataset)
for _name, _answer in answers.DATASET_QUESTIONS.items():
    _add_job(_name, _answer, with_data=True)


@jobs_router.get("/{id}", response_model=schema.Job)
async def job(id: str, state: AppStateDependency) -> Any:
    """Return the state of a job, and its result when done."""
    return state.jobs.get(id).describe()


@jobs_router.delete("/{id}", response_model=schema.Job)
async def cancel(id: str, state: AppStateDependency) -> Any:
    """Cancel a job, queued or running; one that has ended stays as it is."""
    task = state.jobs.get(id)
    task.cancel()
    return task.describe()


@jobs_router.get("/{id}/events", **_EVENTS)
async def events(id: str, state: AppStateDependency) -> StreamingResponse:
    """Tell of a job's progress until it has ended."""
    return StreamingResponse(stream(state.jobs.get(id)), media_type="text/event-stream")


page_router = APIRouter(include_in_schema=False)


def find_built_page() -> FilePath:
    """Return the folder of the built page; raise CannotServe if it is not built."""
    folder = FilePath(str(files("whence.app"))) / "static"
    if not (folder / "index.html").is_file():
        raise CannotServe(
            "The page has not been built: whence/app/static/index.html is missing. Run `npm ci && npm run build` in "
            "web/, or install whence from a wheel."
        )
    return folder


@page_router.get("/")
@page_router.get("/{name}")
async def serve_file(request: Request, name: str = "index.html") -> Response:
    """Give the page, or a script, a style or a picture of it."""
    page = StaticFiles(directory=find_built_page())
    response = await page.get_response(name, request.scope)
    # Revalidated each time, so that page and script are of the same version.
    response.headers["cache-control"] = "no-cache"
    return response


pictures_router = APIRouter(tags=["pictures"])


@pictures_router.put("/pictures", response_model=schema.Picture, **_BYTES)
async def upload_picture(name: FileName, request: Request, state: AppStateDependency) -> Any:
    """Upload a picture: the bytes of a file, whose content gives the format."""
    return await run_in_threadpool(state.pictures.add_upload, name, await request.body())


results_router = APIRouter(prefix="/results", tags=["results"])


@results_router.get("", response_model=schema.Results)
async def results(state: AppStateDependency) -> Any:
    """List the stored results."""
    return state.results.list_results()


@results_router.put(
    "", response_model=schema.StoredResult, **_describe_body("application/json", type="object")
)
async def upload_result(name: FileName, request: Request, state: AppStateDependency) -> Any:
    """Take a stored result: the JSON that whence wrote."""
    return await run_in_threadpool(state.results.add_upload, name, await request.body())


@results_router.get("/{id}", response_model=dict[str, Any])
async def result(id: str, state: AppStateDependency) -> Any:
    """Give a stored result as it was written."""
    return state.results.get(id)


@results_router.get("/{id}/page", name="page", **_PAGE)
def get_result_page(id: str, state: AppStateDependency) -> HTMLResponse:
    """Give whence's page of a stored result; no script runs in it."""
    return HTMLResponse(state.results.render_page(id), headers=_PAGE_HEADERS)


runs_router = APIRouter(prefix="/runs", tags=["runs"])

ReportFormat = Literal["html", "md", "tex", "json"]
# By format: the method that writes it, and the media type.
_REPORT_FORMATS: dict[ReportFormat, tuple[str, str]] = {
    "html": ("to_html", "text/html; charset=utf-8"),
    "md": ("to_markdown", "text/markdown; charset=utf-8"),
    "tex": ("to_latex", "application/x-tex; charset=utf-8"),
    "json": ("to_json", "application/json"),
}
_REPORT = _describe_response(
    "The report as a file.", *(kind.split(";")[0] for _, kind in _REPORT_FORMATS.values())
)
ShortQuery = Annotated[str | None, Query(max_length=300)]


@runs_router.get("", response_model=schema.Runs)
def runs(state: AppStateDependency) -> Any:
    """List the runs that are in the folder now, also those that are being written."""
    listing = state.runs.list_runs()
    for entry in listing["runs"]:
        entry["asks"] = state.models.find_id(entry["model"])
    return listing


@runs_router.get("/{id}/page", name="page", **_PAGE)
def get_run_page(id: str, state: AppStateDependency) -> HTMLResponse:
    """Give whence's report of a run; no script runs in it."""
    return HTMLResponse(state.runs.render_report(id, "to_html"), headers=_PAGE_HEADERS)


@runs_router.get("/{id}/report", **_REPORT)
def report(id: str, state: AppStateDependency, format: ReportFormat = "html") -> Response:
    """Give the report as a file to keep: HTML, Markdown, LaTeX or JSON."""
    writer, media_type = _REPORT_FORMATS[format]
    content = state.runs.render_report(id, writer)
    headers = {
        # Ids contain no characters that need quoting here.
        "content-disposition": f'attachment; filename="{id[:150]}.{format}"',
        "content-security-policy": PAGE_POLICY,
    }
    return Response(content, media_type=media_type, headers=headers)


@runs_router.get("/{id}/rows", response_model=schema.RunRows)
def rows(
    id: str,
    state: AppStateDependency,
    method: ShortQuery = None,
    failed: bool | None = None,
    search: Annotated[str, Query(max_length=300)] = "",
    metric: ShortQuery = None,
    order: Literal["data", "best", "worst"] = "data",
    page: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> Any:
    """Give a page of rows that are written, out of the files; by a metric's value, the best or the worst first."""
    from whence.runs.store import RowFilter

    descending = None
    if order != "data":
        if metric is None:
            raise BadRequest(f"order: {order!r} needs a metric to go by.")
        descending = library.is_descending(metric, order == "best")
    row_filter = RowFilter(method, failed, search.strip(), metric, descending)
    with state.runs.open_run(id) as run:
        return library.list_rows(run, row_filter, page)


@runs_router.get("/{id}/rows/{row}", response_model=schema.RunExample)
def example(
    id: str, row: Annotated[int, Path(ge=0)], state: AppStateDependency, method: ShortQuery = None
) -> Any:
    """Give one row of the data as a method explained it, word by word."""
    with state.runs.open_run(id) as run:
        return library.build_example(run, row, method)


session_router = APIRouter(tags=["session"])


@session_router.get("/session", response_model=schema.Session)
async def session(state: AppStateDependency) -> Any:
    """Return the models, limits and options of this server."""
    return state.session()


@session_router.get("/health", response_model=schema.Health)
async def health(state: AppStateDependency) -> Any:
    """Whether the server is there, and since when."""
    return {"ok": True, "started": state.started}


@session_router.get("/help", response_model=schema.Help)
async def help_cards(state: AppStateDependency) -> Any:
    """Every card of methods, metrics, experiments and edge weights."""
    return {"cards": state.help}


@session_router.post("/models", response_model=schema.ModelEntry)
async def load(body: schema.LoadRequest, state: AppStateDependency, request: Request) -> Any:
    """Load a model now; one that is not on the list only with --allow-load."""
    return await state.load(request, body.name)
