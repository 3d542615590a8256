"""Data sets that are brought in."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool

from whence.web.desk import At
from whence.web.schema.data import DataSet

router = APIRouter(tags=["data"])

Name = Annotated[str, Query(min_length=1, max_length=200, description="The name of the file.")]
_RAW: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.put("/data", response_model=DataSet, openapi_extra=_RAW)
async def bring(name: Name, request: Request, desk: At) -> Any:
    """Take a data set: the bytes of a file whose name's ending says what it is."""
    raw = await request.body()
    return await run_in_threadpool(desk.data.bring, name, raw)
