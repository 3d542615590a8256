"""A Hugging Face data set by its name, or a folder of one: NAME, NAME:SPLIT or NAME:CONFIG:SPLIT."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from logging import CRITICAL
from pathlib import Path
from typing import Any

from whence.core.errors import BadExamples, did_you_mean
from whence.core.network import hub_unreachable
from whence.data.sets.parquet import named
from whence.data.sets.rows import ENDINGS, Row, Table
from whence.data.sets.stream import Unreadable

ORDER = ("test", "validation", "train")  # which split is taken where none is named
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_PEEKED = 100  # rows at once; by the first ones, too, secret labels are known
_SAFE = (
    5,
    0,
    1,
)  # of datasets: before 4 it runs code, before this it follows file names out of the data set
_NUMBERS = re.compile(r"\d+")
_HOW = "NAME, NAME:SPLIT or NAME:CONFIG:SPLIT"


def is_name(given: str) -> bool:
    """Say whether this is the name of a data set, or a folder of one, and not a file."""
    name = given.partition(":")[0]
    if "://" in given or Path(given).is_file() or Path(given.removesuffix(".gz")).suffix in ENDINGS:
        return False
    if not name or name.startswith("."):
        return bool(name) and Path(name).is_dir()
    return Path(name).is_dir() or _NAME.fullmatch(name) is not None


def rows(given: str) -> tuple[str, list[Row], bool]:
    """Load a data set: its name with configuration and split, its rows, and whether the split was guessed."""
    label, part, guessed = _chosen(given, streaming=False)
    found = list(_rows(label, part))
    if not found:
        raise BadExamples(f"{label} has no rows. Name another split: {_HOW}.")
    return label, found, guessed


def table(given: str) -> Table:
    """Open a data set without loading it: its rows come one after the other, from the Hub or from a folder."""
    label, part, guessed = _chosen(given, streaming=True)

    def stream() -> Iterator[Row | Unreadable]:
        rows, datasets = _rows(label, part), _package(given)
        while True:
            some: list[Row] = []
            wrong = None
            try:
                with _quiet(datasets, datasets.config.HF_HUB_OFFLINE):
                    some.extend(islice(rows, _PEEKED))
            except Exception as error:
                # What the network, Arrow or a broken file raise in the midst; nobody knows what would have followed.
                wrong = _reason(error)
            yield from some
            if wrong is not None:
                raise BadExamples(
                    f"{label} cannot be read on: {wrong}. Try again, or save it first."
                )
            if len(some) < _PEEKED:
                return

    def count() -> int | None:
        stated = (part.info.splits or {}).get(part.split)
        number = None if stated is None else stated.num_examples
        return None if number is None else int(number)

    return Table(label, "hub", stream, count, ("split",) if guessed else ())


def _chosen(given: str, streaming: bool) -> tuple[str, Any, bool]:
    """Find one split of a data set, and whether it was guessed."""
    name, *rest = given.split(":")
    if len(rest) > 2:
        raise BadExamples(f"A data set is named by {_HOW}. Got {given!r}.")
    config, split = (rest[0] or None if rest[1:] else None), (rest[-1] or None if rest else None)
    try:
        splits = _splits(name, config, streaming)
    except _NeedsConfig:
        if split is None or config is not None:
            raise
        config, split = split, None
        splits = _splits(name, config, streaming)
    if split is not None and split not in splits:
        raise BadExamples(
            f"The data set {name!r} has no split {split!r}; it has {', '.join(splits)}."
            f"{did_you_mean(split, list(splits))} A data set is named by {_HOW}."
        )
    chosen = split or _likely(splits)
    local = Path(name).is_dir()
    shown = f"the data files in {Path(name).resolve().name}" if local else name
    label = ":".join(part for part in (shown, config, chosen) if part)
    return label, splits[chosen], split is None


class _NeedsConfig(BadExamples):
    """A data set with several configurations, of which none was named."""


def _splits(name: str, config: str | None, streaming: bool) -> Mapping[str, Any]:
    """Return all splits, through the package that knows how; it runs no code of a data set's author."""
    datasets = _package(name)
    offline = not Path(name).is_dir() and (datasets.config.HF_HUB_OFFLINE or hub_unreachable())
    try:
        with _quiet(datasets, offline):
            found = datasets.load_dataset(name, config, streaming=streaming)
    except Exception as error:
        # datasets, the Hub client and Arrow raise a dozen classes here; the user has one question: what now?
        if offline:
            raise BadExamples(
                f"There is no file {name!r}, and the Hub, where a data set of that name may be, does not answer. "
                "Check the spelling or the network."
            ) from None
        reason = _reason(error)
        kind = _NeedsConfig if "Config name is missing" in reason else BadExamples
        raise kind(
            f"The data set {name!r} cannot be loaded: {reason}. A data set is named by {_HOW}."
        ) from None
    return {str(split): part for split, part in found.items()}


def _package(name: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise BadExamples(
            f"There is no file {name!r}, and data sets by name need another package: pip install 'whence[hub]'."
        ) from None
    if tuple(int(part) for part in _NUMBERS.findall(datasets.__version__)[:3]) < _SAFE:
        raise BadExamples(
            f"datasets {datasets.__version__} can be made to run code of a data set's author, or to open files that "
            "are none of the data set's, which whence never does: pip install 'whence[hub]'."
        )
    return datasets


def _reason(error: Exception) -> str:
    return (" ".join(str(error).split())[:300] or type(error).__name__).rstrip(".!")


def _likely(splits: Mapping[str, Any]) -> str:
    """Choose the first of the usual splits; one whose labels are kept secret comes last."""
    usual = [split for split in ORDER if split in splits] or list(splits)
    return next((split for split in usual if not _secret(splits[split])), usual[0])


def _secret(part: Any) -> bool:
    """Say whether the labels of the first rows are all withheld."""
    named = list(_classes(part))
    peeked = list(islice(_without_files(part), _PEEKED)) if named else []
    return any({row[name] for row in peeked} == {-1} for name in named)


def _classes(part: Any) -> dict[str, list[str]]:
    features = part.features or {}  # of a stream they may be unknown
    return {name: list(kind.names) for name, kind in features.items() if hasattr(kind, "names")}


def _without_files(part: Any) -> Any:
    """Leave out images and sounds: they would have to be decoded."""
    features = part.features or {}
    return part.remove_columns(
        [name for name, kind in features.items() if hasattr(kind, "decode_example")]
    )


def _rows(label: str, part: Any) -> Iterator[Row]:
    classes = _classes(part)
    for number, row in enumerate(_without_files(part), 1):
        yield f"{label}, row {number}", named(row, classes)


@contextmanager
def _quiet(datasets: Any, offline: bool) -> Iterator[None]:
    """Keep bars and remarks off the screen, and where nobody answers look only at what was downloaded before."""
    bars, verbosity = datasets.is_progress_bar_enabled(), datasets.logging.get_verbosity()
    asked = datasets.config.HF_HUB_OFFLINE
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(CRITICAL)
    datasets.config.HF_HUB_OFFLINE = asked or offline
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = asked
        datasets.logging.set_verbosity(verbosity)
        if bars:
            datasets.enable_progress_bars()
