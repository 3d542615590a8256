"""HTTP routes of the server: explain, flow, heads, trust, compare, jobs, uploads, results, runs, page files.

Quick requests wait for their model and are answered at once; long work is started as a job, watched through
server-sent events and cancelled by id. Function names become operation ids in openapi.json.
"""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from whence.app import answers, library
from whence.app.library import translate_run_errors
from whence.app.schema import (
    ColumnsRequest,
    CompareDataRequest,
    CompareRequest,
    DataSet,
    ExplainRequest,
    Explanations,
    Flow,
    FlowRequest,
    GenerateRequest,
    HabitsRequest,
    Heads,
    HeadsRequest,
    Health,
    Help,
    InputComparison,
    Job,
    LoadRequest,
    ModelEntry,
    Picture,
    PredictRequest,
    Results,
    RunExample,
    RunRows,
    Runs,
    Session,
    StoredResult,
    TensorsRequest,
    TrustRequest,
    VerifyRequest,
    WordsRequest,
)
from whence.app.security import PAGE_POLICY
from whence.app.state import AppState, AppStateDependency
from whence.app.state import stream_events as stream
from whence.core.errors import BadRequest, CannotServe, NotFound

data_router = APIRouter(tags=["data"])

FileName = Annotated[str, Query(min_length=1, max_length=200, description="The name of the file.")]
ColumnName = Annotated[str | None, Query(max_length=200, description="The column of it.")]
BINARY_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@data_router.put("/data", name="bring", response_model=DataSet, openapi_extra=BINARY_BODY)
async def upload_dataset(
    name: FileName,
    request: Request,
    state: AppStateDependency,
    text: ColumnName = None,
    pair: ColumnName = None,
    label: ColumnName = None,
) -> Any:
    """Upload a data set: the bytes of a file, whose name's ending gives the format."""
    raw = await request.body()
    columns = {"text": text, "pair": pair, "label": label}
    return await run_in_threadpool(state.data.add_upload, name, raw, columns)


@data_router.post("/data/{id}/columns", response_model=DataSet)
async def columns(id: str, body: ColumnsRequest, state: AppStateDependency) -> Any:
    """Read a data set again, by other columns."""
    return await run_in_threadpool(state.data.reread, id, body.model_dump())


explain_router = APIRouter(tags=["explain"])


@explain_router.post("/explain", response_model=Explanations)
async def explain(body: ExplainRequest, state: AppStateDependency, request: Request) -> Any:
    """Explain one input by one method or several."""
    return await state.ask(
        request,
        "explain",
        body.input.model,
        lambda model, go: answers.explain_input(model, body, go),
    )


@explain_router.post("/flow", response_model=Flow)
async def flow(body: FlowRequest, state: AppStateDependency, request: Request) -> Any:
    """Compute the flow through the model for one input."""
    return await state.ask(
        request, "flow", body.input.model, lambda model, go: answers.compute_flow(model, body, go)
    )


@explain_router.post("/heads", name="heads", response_model=Heads)
async def answer_heads(body: HeadsRequest, state: AppStateDependency, request: Request) -> Any:
    """Give one number for each head; "ablation" is a job instead."""
    answers.check_quick(body)
    return await state.ask(
        request,
        "heads",
        body.input.model,
        lambda model, go: answers.compute_head_statistic(model, body, go),
    )


@explain_router.post(
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
async def tensors(body: TensorsRequest, state: AppStateDependency, request: Request) -> Response:
    """Give attention in bulk: single maps in float32, or all of them as thumbnails."""
    return await state.ask(
        request,
        "tensors",
        body.input.model,
        lambda model, go: answers.pack_tensors(model, body.input, body.keys),
    )


@explain_router.post("/compare", name="compare", response_model=InputComparison)
async def answer_compare(body: CompareRequest, state: AppStateDependency, request: Request) -> Any:
    """Hold two models against each other on one input."""
    return await state.ask_both(
        request,
        "compare",
        body.a,
        body.b,
        lambda a, b, go: answers.compare_on_input(a, b, body, go),
    )


jobs_router = APIRouter(prefix="/jobs", tags=["jobs"])


@jobs_router.post("/trust", status_code=202, response_model=Job)
async def trust(body: TrustRequest, state: AppStateDependency) -> Any:
    """Test explanations on this very input."""
    return state.begin(
        "trust", body.input.model, lambda model, go: answers.compute_trust(model, body, go)
    )


@jobs_router.post("/verify", status_code=202, response_model=Job)
async def verify(body: VerifyRequest, state: AppStateDependency) -> Any:
    """Knock edges out, and as many random ones."""
    return state.begin(
        "verify", body.input.model, lambda model, go: answers.verify_edges(model, body, go)
    )


@jobs_router.post("/generate", status_code=202, response_model=Job)
async def generate(body: GenerateRequest, state: AppStateDependency) -> Any:
    """Let a language model continue a prompt, and explain each token of its answer."""
    return state.begin(
        "generate",
        body.input.model,
        lambda model, go: answers.explain_generation(model, body, go),
    )


@jobs_router.post("/heads", name="heads", status_code=202, response_model=Job)
async def start_heads_job(body: HeadsRequest, state: AppStateDependency) -> Any:
    """Give one number for each head, also where the model has to run for each."""
    return state.begin(
        "heads",
        body.input.model,
        lambda model, go: answers.compute_head_statistic(model, body, go),
    )


@jobs_router.post("/compare", name="compare", status_code=202, response_model=Job)
async def start_compare_job(body: CompareDataRequest, state: AppStateDependency) -> Any:
    """Compare two models over a data set."""
    dataset = state.data.get(body.data)
    return state.begin_both(
        "compare",
        body.a,
        body.b,
        lambda a, b, go: answers.compare_over_dataset(a, b, dataset, body, go),
    )


@jobs_router.post("/predict/{data}", status_code=202, response_model=Job)
async def predict(data: str, body: PredictRequest, state: AppStateDependency) -> Any:
    """Predict a data set."""
    dataset = state.data.get(data)
    return state.begin(
        "predict", body.model, lambda model, go: answers.predict_dataset(model, dataset, body, go)
    )


@jobs_router.post("/words/{data}", status_code=202, response_model=Job)
async def words(data: str, body: WordsRequest, state: AppStateDependency) -> Any:
    """Find the words that each class leans on."""
    dataset = state.data.get(data)
    return state.begin(
        "words", body.model, lambda model, go: answers.find_class_words(model, dataset, body, go)
    )


@jobs_router.post("/habits/{data}", status_code=202, response_model=Job)
async def habits(data: str, body: HabitsRequest, state: AppStateDependency) -> Any:
    """Count the kinds of positions that heads attend to."""
    dataset = state.data.get(data)
    return state.begin(
        "habits", body.model, lambda model, go: answers.find_head_habits(model, dataset, body, go)
    )


@jobs_router.get("/{id}", response_model=Job)
async def job(id: str, state: AppStateDependency) -> Any:
    """Return the state of a job, and its result when done."""
    return state.jobs.describe(id)


@jobs_router.delete("/{id}", response_model=Job)
async def cancel(id: str, state: AppStateDependency) -> Any:
    """Cancel a job, queued or running."""
    return state.jobs.cancel(id)


@jobs_router.get(
    "/{id}/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
            "description": "The job without its result, each time something changed.",
        }
    },
)
async def events(id: str, state: AppStateDependency) -> StreamingResponse:
    """Tell of a job's progress until it has ended."""
    state.jobs.describe(id)  # an unknown job is an error, not a stream
    return StreamingResponse(
        stream(lambda: state.jobs.describe(id, result=False)), media_type="text/event-stream"
    )


page_router = APIRouter(include_in_schema=False)

_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}


def find_built_page() -> Traversable:
    """Return the folder of the built page; raise CannotServe if it is not built."""
    folder = files("whence.app") / "static"
    if not (folder / "index.html").is_file():
        raise CannotServe(
            "The page has not been built: whence/app/static/index.html is missing. Run `npm ci && npm run build` in "
            "web/, or install whence from a wheel."
        )
    return folder


@page_router.get("/")
def serve_index(request: Request) -> Response:
    """Give the page."""
    return _build_file_response("index.html", request)


@page_router.get("/{name}")
def serve_file(name: str, request: Request) -> Response:
    """Give a script, a style or a picture of the page."""
    return _build_file_response(name, request)


def _build_file_response(name: str, request: Request) -> Response:
    # Looked up by name among the files: no path is built from the request.
    static_files = {file.name: file for file in find_built_page().iterdir() if file.is_file()}
    media = _MEDIA_TYPES.get(name.rpartition(".")[2])
    if name not in static_files or media is None:
        raise NotFound(f"There is nothing at /{name[:100]}.")
    content = static_files[name].read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    # Revalidated each time, so that page and script are of the same version.
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media, headers=headers)


pictures_router = APIRouter(tags=["pictures"])


@pictures_router.put("/pictures", name="bring", response_model=Picture, openapi_extra=BINARY_BODY)
async def upload_picture(name: FileName, request: Request, state: AppStateDependency) -> Any:
    """Upload a picture: the bytes of a file, whose content gives the format."""
    raw = await request.body()
    return await run_in_threadpool(state.pictures.add_upload, name, raw)


results_router = APIRouter(prefix="/results", tags=["results"])
_JSON_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


@results_router.get("", response_model=Results)
async def results(state: AppStateDependency) -> Any:
    """List the stored results."""
    return state.results.list_results()


@results_router.put("", name="bring", response_model=StoredResult, openapi_extra=_JSON_BODY)
async def upload_result(name: FileName, request: Request, state: AppStateDependency) -> Any:
    """Take a stored result: the JSON that whence wrote."""
    raw = await request.body()
    return await run_in_threadpool(state.results.add_upload, name, raw)


@results_router.get("/{id}", response_model=dict[str, Any])
async def result(id: str, state: AppStateDependency) -> Any:
    """Give a stored result as it was written."""
    return state.results.get(id)


@results_router.get(
    "/{id}/page",
    name="page",
    response_class=Response,
    responses={
        200: {
            "content": {"text/html": {"schema": {"type": "string"}}},
            "description": "A page without script.",
        }
    },
)
def get_result_page(id: str, state: AppStateDependency) -> HTMLResponse:
    """Give whence's page of a stored result; no script runs in it."""
    headers = {"content-security-policy": PAGE_POLICY, "x-frame-options": "SAMEORIGIN"}
    return HTMLResponse(state.results.render_page(id), headers=headers)


runs_router = APIRouter(prefix="/runs", tags=["runs"])

ReportFormat = Literal["html", "md", "tex", "json"]
_REPORT_MEDIA_TYPES: dict[ReportFormat, str] = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "tex": "application/x-tex; charset=utf-8",
    "json": "application/json",
}
ShortQuery = Annotated[str | None, Query(max_length=300)]


@runs_router.get("", response_model=Runs)
def runs(state: AppStateDependency) -> Any:
    """List the runs that are in the folder now, also those that are being written."""
    listing = state.runs.list_runs()
    for entry in listing["runs"]:
        entry["asks"] = state.models.find_id(entry["model"])
    return listing


@runs_router.get(
    "/{id}/page",
    name="page",
    response_class=Response,
    responses={
        200: {
            "content": {"text/html": {"schema": {"type": "string"}}},
            "description": "A page without script.",
        }
    },
)
def get_run_page(id: str, state: AppStateDependency) -> HTMLResponse:
    """Give whence's report of a run; no script runs in it."""
    headers = {"content-security-policy": PAGE_POLICY, "x-frame-options": "SAMEORIGIN"}
    return HTMLResponse(_render_report(state, id, "html"), headers=headers)


@runs_router.get(
    "/{id}/report",
    response_class=Response,
    responses={
        200: {
            "content": {kind.split(";")[0]: {} for kind in _REPORT_MEDIA_TYPES.values()},
            "description": "The report as a file.",
        }
    },
)
def report(id: str, state: AppStateDependency, format: ReportFormat = "html") -> Response:
    """Give the report as a file to keep: HTML, Markdown, LaTeX or JSON."""
    content = _render_report(state, id, format)
    headers = {
        # Ids contain no characters that need quoting here.
        "content-disposition": f'attachment; filename="{id[:150]}.{format}"',
        "content-security-policy": PAGE_POLICY,
    }
    return Response(content, media_type=_REPORT_MEDIA_TYPES[format], headers=headers)


@runs_router.get("/{id}/rows", response_model=RunRows)
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

    if order != "data" and metric is None:
        raise BadRequest(f"order: {order!r} needs a metric to go by.")
    descending = (
        None
        if order == "data" or metric is None
        else library.is_descending(metric, order == "best")
    )
    run = state.runs.open_run(id)
    with translate_run_errors(id):
        row_filter = RowFilter(method, failed, search.strip(), metric, descending)
        return library.list_rows(run, row_filter, page)


@runs_router.get("/{id}/rows/{row}", response_model=RunExample)
def example(
    id: str, row: Annotated[int, Path(ge=0)], state: AppStateDependency, method: ShortQuery = None
) -> Any:
    """Give one row of the data as a method explained it, word by word."""
    run = state.runs.open_run(id)
    with translate_run_errors(id):
        return library.build_example(run, row, method)


def _render_report(state: AppState, id: str, format: ReportFormat) -> str:
    writer = {"html": "to_html", "md": "to_markdown", "tex": "to_latex", "json": "to_json"}[format]
    return str(state.runs.build_once(id, format, lambda run: getattr(run.report(), writer)()))


session_router = APIRouter(tags=["session"])


@session_router.get("/session", response_model=Session)
async def session(state: AppStateDependency) -> Any:
    """Return the models, limits and options of this server."""
    return state.session()


@session_router.get("/health", response_model=Health)
async def health(state: AppStateDependency) -> Any:
    """Whether the server is there, and since when."""
    return {"ok": True, "started": state.started}


@session_router.get("/help", response_model=Help)
async def help_cards(state: AppStateDependency) -> Any:
    """Every card of methods, metrics, experiments and edge weights."""
    return {"cards": state.help}


@session_router.post("/models", response_model=ModelEntry)
async def load(body: LoadRequest, state: AppStateDependency, request: Request) -> Any:
    """Load a model now; one that is not on the list only with --allow-load."""
    return await state.load(request, body.name)
