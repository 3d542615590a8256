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
