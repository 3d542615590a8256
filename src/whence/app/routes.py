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
