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
