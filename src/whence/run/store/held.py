"""Which results of a window there are already."""

from collections.abc import Iterable

import pyarrow as pa


class Held:
    """The results of a window, by the row of the example and the key."""

    def __init__(self, tables: Iterable[pa.Table] = ()) -> None:
        self._done: dict[int, set[str]] = {}
        self._failed: dict[int, set[str]] = {}
        for table in tables:
            errors = table["error"].is_valid().to_pylist()
            for row, key, error in zip(
                table["row"].to_pylist(), table["key"].to_pylist(), errors, strict=True
            ):
                (self._failed if error else self._done).setdefault(row, set()).add(key)
        for row, keys in self._failed.items():
            keys -= self._done.get(row, set())  # tried again, and it worked

    def lacks(self, row: int, key: str, retry_failed: bool = False) -> bool:
        """Say whether a result is to be computed: it is not there, or it failed and is to be tried again."""
        if key in self._done.get(row, ()):
            return False
        return retry_failed or key not in self._failed.get(row, ())

    @property
    def keys(self) -> set[str]:
        """The keys of all results, failures included; equal examples in several rows have one."""
        return set().union(*self._done.values(), *self._failed.values())

    @property
    def failed(self) -> set[str]:
        """The keys of the failures."""
        return set().union(*self._failed.values())

    def __len__(self) -> int:
        return sum(map(len, self._done.values())) + sum(map(len, self._failed.values()))
