"""What is asked of a model over a data set, in its thread."""

from typing import TYPE_CHECKING

from whence.web.jobs import Progress
from whence.web.models import Model
from whence.web.schema.compare import CompareDataAsked, Comparison
from whence.web.schema.data import (
    Habits,
    HabitsAsked,
    Leaning,
    PredictAsked,
    Predicted,
    WordsAsked,
)

if TYPE_CHECKING:
    from whence.data.sets.examples import Read


def predicted(model: Model, data: "Read", asked: PredictAsked, progress: Progress) -> Predicted:
    """Predict a data set."""
    from whence import survey

    found = survey.predictions(model.explainer(), data, limit=asked.limit, progress=progress)
    return Predicted.model_validate(found)


def leaning(model: Model, data: "Read", asked: WordsAsked, progress: Progress) -> Leaning:
    """Find the words that each class leans on."""
    from whence import survey

    found = survey.words(
        model.explainer(),
        data,
        method=asked.method,
        limit=asked.limit,
        least=asked.least,
        progress=progress,
    )
    return Leaning.model_validate(found)


def habits(model: Model, data: "Read", asked: HabitsAsked, progress: Progress) -> Habits:
    """Find what heads attend to."""
    from whence import survey

    found = survey.habits(model.explainer(), data, limit=asked.limit, progress=progress)
    return Habits.model_validate(found)


def comparison(
    a: Model, b: Model, data: "Read", asked: CompareDataAsked, progress: Progress
) -> Comparison:
    """Compare two models over a data set."""
    from whence.comparison import compare

    found = compare(
        a.explainer(),
        b.explainer(),
        data,
        limit=asked.limit,
        coverage=asked.coverage,
        specials=asked.specials,
        method=asked.method,
        seed=asked.seed,
        progress=progress,
    )
    return Comparison.model_validate(found.to_dict())
