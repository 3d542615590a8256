"""The cards: a page for each registered method, metric and experiment, and those of all methods and experiments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import audit_cards
import method_cards
import method_tables
import metric_cards

from whence.audit.experiments import experiment
from whence.methods import method
from whence.metrics import metric

# By their path from docs/.
PAGES: dict[str, Callable[[], str]] = {
    "methods/README.md": method_tables.index,
    "audits/README.md": audit_cards.index,
    **{f"methods/{name}.md": partial(method_cards.card, name) for name in method.names()},
    **{f"metrics/{name}.md": partial(metric_cards.card, name) for name in metric.names()},
    **{f"audits/{name}.md": partial(audit_cards.card, name) for name in experiment.names()},
}
