"""How information flowed: from the decision back to the words, edge by edge, whatever an edge's weight is.

A trace becomes `Weights` (what every edge weighs, and what the skip connection carries past it), these and a root
become a `Traced` (what flows), and of that `select` takes the strongest edges within a `Query`.
"""

from whence.flow.cards import CARDS, Card
from whence.flow.classic import Classic, Influence, influence
from whence.flow.crossing import Crossing, crossing
from whence.flow.graph import DIRECTIONS, Direction, Traced, trace_flow
from whence.flow.habits import KINDS, Habits, habits
from whence.flow.heads import (
    divergence,
    entropy,
    gradient_importance,
    jensen_shannon,
    open_keys,
    special_mass,
    thumbnails,
)
from whence.flow.payload import flow_payload
from whence.flow.query import Query, SegmentPair
from whence.flow.select import Edges, cover, select
from whence.flow.sets import (
    Difference,
    chance_jaccard,
    difference,
    possible,
)
from whence.flow.weights import (
    CLASS_FREE,
    NAMES,
    NEEDS,
    Name,
    Weights,
    attention_maps,
    attention_weights,
    weights,
)

__all__ = [
    "CARDS",
    "CLASS_FREE",
    "DIRECTIONS",
    "KINDS",
    "NAMES",
    "NEEDS",
    "Card",
    "Classic",
    "Crossing",
    "Difference",
    "Direction",
    "Edges",
    "Habits",
    "Influence",
    "Name",
    "Query",
    "SegmentPair",
    "Traced",
    "Weights",
    "attention_maps",
    "attention_weights",
    "chance_jaccard",
    "cover",
    "crossing",
    "difference",
    "divergence",
    "entropy",
    "flow_payload",
    "gradient_importance",
    "habits",
    "influence",
    "jensen_shannon",
    "open_keys",
    "possible",
    "select",
    "special_mass",
    "thumbnails",
    "trace_flow",
    "weights",
]
