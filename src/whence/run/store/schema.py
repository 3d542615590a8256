"""The tables of a store: their columns, what they mean, and how rows are sorted. A contract with whoever reads them.

A column that is added, goes, or changes its type or meaning makes a new version; a store of a version that is not
known is refused. Version 2 added `gold` and `right`: of files of version 1 they are read as null.
"""

from typing import NamedTuple

import pyarrow as pa

VERSION = 2
SINCE_2 = ("gold", "right")


class Column(NamedTuple):
    """A column of a table: its type, whether it may be null, and what stands in it."""

    name: str
    type: pa.DataType
    nullable: bool
    meaning: str


_TEXT, _WHOLE = pa.string(), pa.int32()


def _list(of: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", of))  # as Parquet calls it


_AXIOM = pa.struct([pa.field("axiom", _TEXT), pa.field("residual", pa.float64())])

COLUMNS: dict[str, tuple[Column, ...]] = {
    "explanations": (
        Column("key", _TEXT, False, "the hash of everything that determines this result"),
        Column("setting", _TEXT, False, "all of it but the example; the manifest says what"),
        Column("row", pa.int64(), False, "the example's place in the data, counted from 0"),
        Column("example", _TEXT, False, "the hash of the example: text or picture, label, marks"),
        Column("id", _TEXT, False, "the example's own name, or what its place is called"),
        Column("label", _TEXT, True, "its true label, where the data has one"),
        Column("text", _TEXT, True, "its text; null of a picture"),
        Column("pair", _TEXT, True, "its second text, where there are two"),
        Column("method", _TEXT, False, "what explained it"),
        Column("gold", _TEXT, True, "its true label as the model calls it; null: not one of its"),
        Column("right", pa.bool_(), True, "whether the model predicts that; null: nobody can say"),
        Column("target", _TEXT, True, "the class that is explained"),
        Column("predicted", _TEXT, True, "the class that the model predicts"),
        Column("probability", pa.float64(), True, "what the model gives that class"),
        Column("tokens", _list(_TEXT), True, "what has a score: tokens, or patches by name"),
        Column("special", _list(pa.bool_()), True, "whether a token is the model's own"),
        Column("starts", _list(_WHOLE), True, "where a token begins in its text; null: nowhere"),
        Column("ends", _list(_WHOLE), True, "where it ends, one character behind the last"),
        Column("segments", _list(pa.int8()), True, "of which text it is: 0, or 1 of a pair"),
        Column("ids", _list(pa.int64()), True, "its number in the model's vocabulary"),
        Column("words", _list(_WHOLE), True, "its word's number; -1: in none; null: never removed"),
        Column("scores", _list(pa.float64()), True, "the explanation, a score for each token"),
        Column("axioms", _list(_AXIOM), True, "how far a law is missed that scores should obey"),
        Column("forward", _WHOLE, True, "forward passes that this took"),
        Column("backward", _WHOLE, True, "backward passes"),
        Column("dropped", _WHOLE, True, "tokens that were cut off, because the text is too long"),
        Column("refused", pa.bool_(), True, "whether the model cannot take the input at all"),
        Column("error", _TEXT, True, "of a failure: the code of its error; scores are null"),
        Column("why", _TEXT, True, "of a failure: a sentence"),
    ),
    "metrics": (
        Column("key", _TEXT, False, "the hash of everything that determines this result"),
        Column("setting", _TEXT, False, "all of it but the example; the manifest says what"),
        Column("row", pa.int64(), False, "the example's place in the data, counted from 0"),
        Column("example", _TEXT, False, "the hash of the example: text or picture, label, marks"),
        Column("method", _TEXT, False, "whose explanation was tested"),
        Column("metric", _TEXT, False, "what tested it"),
        Column("value", pa.float64(), True, "what it measured"),
        Column("null", pa.float64(), True, "the same of random rankings, their mean"),
        Column("part_names", _list(_TEXT), True, "what a value is made of, where it has parts"),
        Column("parts", _list(pa.float64()), True, "the parts of the value, in this order"),
        Column("null_parts", _list(pa.float64()), True, "those of each random ranking in turn"),
        Column("error", _TEXT, True, "why there is no value: the code of an error"),
        Column("why", _TEXT, True, "why there is no value: a sentence"),
    ),
}

# How the rows of a file are sorted.
ORDER = {
    "explanations": ("row", "method", "setting"),
    "metrics": ("row", "method", "metric", "setting"),
}


def _schema(name: str, version: int = VERSION) -> pa.Schema:
    stated = {"whence": f"store {name}", "version": str(version)}
    left_out = SINCE_2 if version < 2 else ()
    fields = [
        pa.field(one.name, one.type, nullable=one.nullable)
        for one in COLUMNS[name]
        if one.name not in left_out
    ]
    return pa.schema(fields, metadata=stated)


SCHEMAS: dict[str, pa.Schema] = {name: _schema(name) for name in COLUMNS}
# Of stores that an earlier whence wrote.
EARLIER: dict[str, pa.Schema] = {name: _schema(name, 1) for name in COLUMNS}
TABLES: tuple[str, ...] = tuple(COLUMNS)
