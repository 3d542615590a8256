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
