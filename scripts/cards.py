"""List of card pages for build_docs.py: path and function of each method, metric and experiment, two indexes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import audit_cards
import method_cards
import method_tables
import metric_cards

from whence.methods import method
from whence.metrics import metric
from whence.studies.audit.experiments import experiment

# By their path from docs/.
PAGES: dict[str, Callable[[], str]] = {
    "methods/README.md": method_tables.render_index,
    "audits/README.md": audit_cards.render_index,
    **{f"methods/{name}.md": partial(method_cards.render_card, name) for name in method.names()},
    **{f"metrics/{name}.md": partial(metric_cards.render_card, name) for name in metric.names()},
    **{f"audits/{name}.md": partial(audit_cards.render_card, name) for name in experiment.names()},
}
