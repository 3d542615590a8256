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
    from whence.audit import Audit, audit
    from whence.comparison import Comparison, compare
    from whence.core.errors import WhenceError
    from whence.evaluation import evaluate, recommend
    from whence.explainer import Explainer, Explanation, Generation, load
    from whence.run.call import run
    from whence.run.plan import Plan
    from whence.run.results import Run
    from whence.training import train_attention
    from whence.widget import workbench

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
    "Audit": "whence.audit",
    "Comparison": "whence.comparison",
    "Explainer": "whence.explainer",
    "Explanation": "whence.explainer",
    "Generation": "whence.explainer",
    "Plan": "whence.run.plan",
    "Run": "whence.run.results",
    "WhenceError": "whence.core.errors",
    "audit": "whence.audit",
    "compare": "whence.comparison",
    "evaluate": "whence.evaluation",
    "load": "whence.explainer",
    "recommend": "whence.evaluation",
    "run": "whence.run.call",
    "train_attention": "whence.training",
    "workbench": "whence.widget",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'whence' has no attribute {name!r}; it offers {__all__}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
