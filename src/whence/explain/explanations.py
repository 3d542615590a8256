"""Explanations: what `explain` returns for several inputs, methods or entities, a sequence also indexed by method."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, overload

import numpy as np

from whence.core.errors import BadParameter, CannotRead, UnknownMethod
from whence.core.files import write_if_path, write_text
from whence.core.result import Result
from whence.core.types import Target
from whence.explain.explanation import Explanation
from whence.explain.word_scores import PAYLOAD_VERSION, merge_payloads
from whence.render.text import escape_formula

if TYPE_CHECKING:
    from whence.explain.request import MethodRequest
    from whence.explain.tasks import TargetedInputs
    from whence.render.document import Document

Entry = Union[Explanation, "Explanations"]
Array = np.ndarray[Any, Any]


class Explanations(Result, Sequence[Entry]):
    """Explanations of several inputs, of one input by several methods, or both: then each entry is an `Explanations`.

    A number selects an entry, a method's name all explanations by it.
    """

    kind = "explanations"

    def __init__(self, entries: Sequence[Entry], methods: Sequence[str], *, of_one: bool) -> None:
        self._entries = list(entries)
        self.methods = tuple(methods)
        self.of_one = of_one  # the entries are one input by each of the methods

    @overload
    def __getitem__(self, index: int | str) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> "Explanations": ...
    def __getitem__(self, index: int | str | slice) -> Any:
        if isinstance(index, slice):
            methods = self.methods[index] if self.of_one else self.methods
            return Explanations(self._entries[index], methods, of_one=self.of_one)
        if not isinstance(index, str):
            return self._entries[index]
        if index not in self.methods:
            raise UnknownMethod(
                f"There is no explanation by {index!r}. The methods are {', '.join(self.methods)}."
            )
        if self.of_one:
            return self._entries[self.methods.index(index)]
        own = [entry[index] if isinstance(entry, Explanations) else entry for entry in self]
        return Explanations(own, (index,), of_one=False)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __contains__(self, value: object) -> bool:
        return value in self.methods if isinstance(value, str) else value in self._entries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._entries == list(other)

    __hash__ = None  # type: ignore[assignment]

    def keys(self) -> tuple[str, ...]:
        """Return the names of the methods."""
        return self.methods

    def values(self) -> list[Any]:
        """Return the explanations by each method."""
        return [self[name] for name in self.methods]

    def items(self) -> list[tuple[str, Any]]:
        """Return each method's name with the explanations by it."""
        return [(name, self[name]) for name in self.methods]

    def flatten(self) -> list[Explanation]:
        """Return every single explanation, in order."""
        return [explanation for group in self.group_by_input() for explanation in group]

    def group_by_input(self) -> list[list[Explanation]]:
        """Return the explanations of each input, or entity, together."""
        groups: list[list[Explanation]] = []
        for entry in self._entries:
            groups += entry.group_by_input() if isinstance(entry, Explanations) else [[entry]]
        return [[one for group in groups for one in group]] if self.of_one else groups

    def to_dataframe(self) -> Any:
        """Return a pandas table with a row for each word, or patch: input, method, target, word and score."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise BadParameter(
                "to_dataframe() makes a table of pandas: pip install pandas."
            ) from None
        rows = [
            {"input": number, "method": one.method, "target": str(one.target), **row}
            for number, group in enumerate(self.group_by_input())
            for one in group
            for row in _list_rows(one)
        ]
        return pandas.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object: the inputs, each with its explanations."""
        inputs = [merge_payloads([one.to_dict() for one in g]) for g in self.group_by_input()]
        return {
            "version": PAYLOAD_VERSION,
            "kind": self.kind,
            "methods": list(self.methods),
            "of_one": self.of_one,
            "inputs": inputs,
        }

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "Explanations":
        """Build explanations from the data of `to_dict`."""
        if not isinstance(payload, Mapping) or payload.get("kind") != cls.kind:
            raise CannotRead(
                "These are not saved explanations. Give a .json file that save() wrote."
            )
        if payload.get("version") != PAYLOAD_VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the format; this whence reads {PAYLOAD_VERSION}."
            )
        try:
            methods, of_one = [*map(str, payload["methods"])], bool(payload["of_one"])
            groups = [
                [
                    Explanation.from_dict({**one, "explanations": [own]})
                    for own in one["explanations"]
                ]
                for one in payload["inputs"]
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise CannotRead(
                f"These are not saved explanations: {type(error).__name__} {error}. Give a file that save() wrote."
            ) from None
        if of_one:
            return cls(groups[0], methods, of_one=True)
        entries = [g[0] if len(g) == 1 else cls(g, methods, of_one=True) for g in groups]
        return cls(entries, methods, of_one=False)

    @property
    def data(self) -> Mapping[str, Any]:
        """The documented JSON object."""
        return self.to_dict()

    def save(self, path: str | Path) -> Path:
        """Write the explanations as `Result.save`, or as a table if the name ends in .csv.

        A text that a spreadsheet would take for a formula gets a single quote before it.
        """
        if Path(path).suffix.lower() == ".csv":
            return write_text(path, self.to_dataframe().map(escape_formula).to_csv(index=False))
        return super().save(path)

    def to_html(self, path: str | Path | None = None, *, flows: bool = True) -> str:
        """Return an HTML page that needs no network, and write it if a path is given; see `Explanation.to_html`."""
        from whence.explain.page import render_page

        return write_if_path(render_page(self.group_by_input(), flows=flows), path)

    def document(self) -> "Document":
        """Return the blocks that every surface shows."""
        from whence.explain.report import build_document

        groups = self.group_by_input()
        return build_document(
            [merge_payloads([one.to_display_dict() for one in g]) for g in groups]
        )

    def __repr__(self) -> str:
        groups = self.group_by_input()
        inputs = "1 input" if len(groups) == 1 else f"{len(groups)} inputs"
        return f"<Explanations of {inputs} by {', '.join(self.methods)}>"


def _list_rows(explanation: Explanation) -> list[dict[str, Any]]:
    """Return the words of an explanation, or the patches, with their scores."""
    if explanation.grid is not None:
        across = explanation.grid[1]
        return [
            {"row": place // across, "column": place % across, "score": float(score)}
            for place, score in enumerate(explanation.scores)
        ]
    return [
        {"word": word.text, "start": word.start, "end": word.end, "score": word.score}
        for word in explanation.words()
    ]


@dataclass(frozen=True, eq=False)
class ScoreArrays(Mapping[str, list[Array]]):
    """Bare scores of several inputs: by each method one array for each input, one number for each token.

    Of a tagger there is one for each entity: `inputs` has the number of the input that each array is about.
    """

    scores: Mapping[str, list[Array]]
    targets: list[Target]  # the explained output of each
    inputs: list[int]

    def __getitem__(self, method: str) -> list[Array]:
        return self.scores[method]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)


def collect_arrays(
    parts: "Sequence[tuple[Sequence[int], TargetedInputs]]",
    results: Sequence[Mapping[str, Any]],
    requests: "Sequence[MethodRequest]",
) -> ScoreArrays:
    """Return the bare scores of all targeted inputs of the parts, in the order of the inputs."""
    inputs = [
        rows[owner]
        for rows, targeted in parts
        for owner in (range(len(rows)) if targeted.owners is None else targeted.owners)
    ]
    order = sorted(range(len(inputs)), key=inputs.__getitem__)
    names = [request.name for request in requests]
    return ScoreArrays(
        {name: [results[number][name].scores for number in order] for name in names},
        [results[number][names[0]].target for number in order],
        [inputs[number] for number in order],
    )


def assemble_explanations(
    parts: "Sequence[tuple[Sequence[int], TargetedInputs]]",
    results: Sequence[Mapping[str, Explanation]],
    requests: "Sequence[MethodRequest]",
    *,
    single: bool,
    several_methods: bool,
) -> Entry:
    """Return the results in the order and shape of the inputs.

    `results` are those of all targeted inputs of the parts, one after the other. An input that became several, such
    as a text and its entities, gets an `Explanations` of these, unless its part joins them to one.
    """
    methods = [request.name for request in requests]
    own: list[Entry] = [
        Explanations([by_name[name] for name in methods], methods, of_one=True)
        if several_methods
        else by_name[methods[0]]
        for by_name in results
    ]
    entries: dict[int, Entry] = {}
    start = 0
    for rows, targeted in parts:
        numbers = range(start, start + len(targeted.items))
        start = numbers.stop
        if targeted.owners is None:
            entries |= zip(rows, own[numbers.start : start], strict=True)
            continue
        for place, row in enumerate(rows):
            mine = [n for n, owner in zip(numbers, targeted.owners, strict=True) if owner == place]
            if targeted.join is None:
                entries[row] = Explanations([own[n] for n in mine], methods, of_one=False)
                continue
            joined = [targeted.join([results[n][name] for n in mine]) for name in methods]
            of_several = Explanations(joined, methods, of_one=True)
            entries[row] = of_several if several_methods else joined[0]
    ordered = [entries[row] for row in sorted(entries)]
    return ordered[0] if single else Explanations(ordered, methods, of_one=False)
