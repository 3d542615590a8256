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
