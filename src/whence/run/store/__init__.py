"""The results of a run on disk: Parquet tables, an index of checksums, a manifest (docs/reference/store.md)."""

from whence.run.store.held import Held
from whence.run.store.store import Store

__all__ = ["Held", "Store"]
