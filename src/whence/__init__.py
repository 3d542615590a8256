"""whence: explain what a Transformer predicted, and whether to believe the explanation.

    import whence

    explainer = whence.load("reviews")
    explanation = explainer.explain("a gripping, beautifully acted film")
    print(explanation)

Importing whence imports neither torch nor transformers; they come with the first `load`.
"""

from typing import TYPE_CHECKING, Any

from whence._version import __version__

if TYPE_CHECKING:
    from whence.app.widget import workbench
    from whence.core.errors import WhenceError
    from whence.explain.explainer import Explainer, load
    from whence.explain.explanation import Explanation
    from whence.explain.generation import Generation
    from whence.runs.plan import Plan
    from whence.runs.results import Run
    from whence.runs.run import run
    from whence.studies.audit.audit import Audit, audit
    from whence.studies.compare.compare import compare
    from whence.studies.compare.comparison import Comparison
    from whence.studies.evaluation.evaluate import evaluate
    from whence.studies.evaluation.recommend import recommend
    from whence.studies.training.train import train_attention

__all__ = [
    "Audit",
    "Comparison",
    "Explainer",
    "Explanation",
    "Generation",
    "Plan",
    "Run",
    "WhenceError",
    "__version__",
    "audit",
    "compare",
    "evaluate",
    "load",
    "recommend",
    "run",
    "train_attention",
    "workbench",
]

_HOME = {
    "Audit": "whence.studies.audit.audit",
    "Comparison": "whence.studies.compare.comparison",
    "Explainer": "whence.explain.explainer",
    "Explanation": "whence.explain.explanation",
    "Generation": "whence.explain.generation",
    "Plan": "whence.runs.plan",
    "Run": "whence.runs.results",
    "WhenceError": "whence.core.errors",
    "audit": "whence.studies.audit.audit",
    "compare": "whence.studies.compare.compare",
    "evaluate": "whence.studies.evaluation.evaluate",
    "load": "whence.explain.explainer",
    "recommend": "whence.studies.evaluation.recommend",
    "run": "whence.runs.run",
    "train_attention": "whence.studies.training.train",
    "workbench": "whence.app.widget",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'whence' has no attribute {name!r}; it offers {__all__}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
