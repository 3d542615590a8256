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
