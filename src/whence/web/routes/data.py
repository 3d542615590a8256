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
