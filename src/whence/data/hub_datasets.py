"""Hugging Face data sets by name or folder (NAME:CONFIG:SPLIT): loading, streaming, choice of the split.

No code of a data set's author is run: `datasets` before version 4 runs such code, and before 5.0.1 it follows
file names out of the data set, so older versions are refused.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from logging import CRITICAL
from pathlib import Path
from typing import Any

from whence.core.errors import BadExamples, suggest_name
from whence.core.network import is_hub_unreachable
from whence.data.readers import (
    FILE_ENDINGS,
    Rows,
    RowSource,
    list_class_names,
    replace_class_ids,
)

HUB_SPLITS = ("test", "validation", "train")  # the order of preference if none is named
_DATASET_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_PEEK_ROWS = 100  # rows per read, and rows in which withheld labels are looked for
# Version of datasets: before 4 it runs authors' code, before 5.0.1 it follows paths out of the data set.
_SAFE_VERSION = (5, 0, 1)
_NAME_HINT = "NAME, NAME:SPLIT or NAME:CONFIG:SPLIT"


def is_dataset_name(address: str) -> bool:
    """Return whether this is the name of a data set, or a folder of one, and not a file."""
    name = address.partition(":")[0]
    is_file = Path(address).is_file() or Path(address.removesuffix(".gz")).suffix in FILE_ENDINGS
    if is_file or not name or "://" in address:
        return False
    by_name = not name.startswith(".") and _DATASET_NAME.fullmatch(name) is not None
    return by_name or Path(name).is_dir()


def open_hub_dataset(address: str, *, streaming: bool) -> RowSource:
    """Open a data set as a source of rows: streamed, or downloaded first and kept in the cache of `datasets`."""
    label, part, guessed = _select_split(address, streaming)

    def read_rows() -> Rows:
        datasets = _import_datasets(address)
        classes = list_class_names(part)
        stream = iter(_drop_media_columns(part))
        seen = 0
        while True:
            batch: list[Mapping[str, Any]] = []
            reason = None
            try:
                with _silence_datasets(datasets, datasets.config.HF_HUB_OFFLINE):
                    batch.extend(islice(stream, _PEEK_ROWS))
            except Exception as error:
                # The network, Arrow or a broken file may raise anything mid-stream; the rest is unknown.
                reason = _format_reason(error)
            for row in batch:
                seen += 1
                yield f"{label}, row {seen}", replace_class_ids(row, classes)
            if reason is not None:
                raise BadExamples(
                    f"{label} cannot be read on: {reason}. Try again, or save it first."
                )
            if not seen:
                raise BadExamples(f"{label} has no rows. Name another split: {_NAME_HINT}.")
            if len(batch) < _PEEK_ROWS:
                return

    def count_rows() -> int | None:
        if not streaming:
            return len(part)
        number = getattr((part.info.splits or {}).get(part.split), "num_examples", None)
        return None if number is None else int(number)

    return RowSource(label, "hub", read_rows, count_rows, ("split",) if guessed else ())


def _select_split(address: str, streaming: bool) -> tuple[str, Any, bool]:
    """Return the label and data of one split of a data set, and whether it was guessed."""
    name, *rest = address.split(":")
    if len(rest) > 2:
        raise BadExamples(f"A data set is named by {_NAME_HINT}. Got {address!r}.")
    config, split = (rest[0] or None if rest[1:] else None), (rest[-1] or None if rest else None)
    try:
        splits = _load_splits(name, config, streaming)
    except _ConfigMissing:
        if split is None or config is not None:
            raise
        config, split = split, None
        splits = _load_splits(name, config, streaming)
    if split is not None and split not in splits:
        raise BadExamples(
            f"The data set {name!r} has no split {split!r}; it has {', '.join(splits)}."
            f"{suggest_name(split, list(splits))} A data set is named by {_NAME_HINT}."
        )
    # The first of the usual splits; one with withheld labels comes last.
    usual = [one for one in HUB_SPLITS if one in splits] or list(splits)
    best = (one for one in usual if split is None and not _has_hidden_labels(splits[one]))
    split_name = split or next(best, usual[0])
    local = Path(name).is_dir()
    display_name = f"the data files in {Path(name).resolve().name}" if local else name
    label = ":".join(part for part in (display_name, config, split_name) if part)
    return label, splits[split_name], split is None


class _ConfigMissing(BadExamples):
    """Raised if a data set has several configurations and none was named."""


def _load_splits(name: str, config: str | None, streaming: bool) -> Mapping[str, Any]:
    """Return all splits, loaded by the package datasets, without running code of the author."""
    datasets = _import_datasets(name)
    offline = not Path(name).is_dir() and (datasets.config.HF_HUB_OFFLINE or is_hub_unreachable())
    try:
        with _silence_datasets(datasets, offline):
            splits = datasets.load_dataset(name, config, streaming=streaming)
    except Exception as error:
        # datasets, the Hub client and Arrow raise a dozen classes here; the user needs one error with a remedy.
        if offline:
            raise BadExamples(
                f"There is no file {name!r}, and the Hub, where a data set of that name may be, does not answer. "
                "Check the spelling or the network."
            ) from None
        reason = _format_reason(error)
        kind = _ConfigMissing if "Config name is missing" in reason else BadExamples
        raise kind(
            f"The data set {name!r} cannot be loaded: {reason}. A data set is named by {_NAME_HINT}."
        ) from None
    return {str(split): part for split, part in splits.items()}


def _import_datasets(name: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise BadExamples(
            f"{name!r} is no file, and other data sets need another package: pip install 'whence[hub]'."
        ) from None
    version = tuple(int(part) for part in re.findall(r"\d+", datasets.__version__)[:3])
    if version < _SAFE_VERSION:
        raise BadExamples(
            f"datasets {datasets.__version__} can be made to run code of a data set's author, or to open files that "
            "are none of the data set's, which whence never does: pip install 'whence[hub]'."
        )
    return datasets


def _format_reason(error: Exception) -> str:
    return (" ".join(str(error).split())[:300] or type(error).__name__).rstrip(".!")


def _has_hidden_labels(part: Any) -> bool:
    """Return whether the labels of the first 100 rows are all withheld (-1)."""
    columns = list(list_class_names(part))
    rows = list(islice(_drop_media_columns(part), _PEEK_ROWS)) if columns else []
    return any({row[name] for row in rows} == {-1} for name in columns)


def _drop_media_columns(part: Any) -> Any:
    """Return the split without images and sounds, which would have to be decoded."""
    kinds = (part.features or {}).items()
    return part.remove_columns([name for name, kind in kinds if hasattr(kind, "decode_example")])


@contextmanager
def _silence_datasets(datasets: Any, offline: bool) -> Iterator[None]:
    """Silence progress bars and logs; if the Hub is unreachable, use the local cache only."""
    bars, verbosity = datasets.is_progress_bar_enabled(), datasets.logging.get_verbosity()
    was_offline = datasets.config.HF_HUB_OFFLINE
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(CRITICAL)
    datasets.config.HF_HUB_OFFLINE = was_offline or offline
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = was_offline
        datasets.logging.set_verbosity(verbosity)
        if bars:
            datasets.enable_progress_bars()
