"""Pictures: those that are brought in, and those that can be drawn."""

import re
import threading
from typing import TYPE_CHECKING, Any

from whence.core.errors import NotFound
from whence.web.settings import Settings
from whence.web.uploads import free_id, plain_name

if TYPE_CHECKING:
    from PIL.Image import Image

    from whence.data.sets.pictures import Stored

_DRAWN = re.compile(r"shapes:[0-9]{1,9}")
_BYTES = 256 * 10**6  # of all pictures together


class Pictures:
    """The pictures of a server. They stay in memory, as the files that they came as, and nowhere else."""

    def __init__(self, settings: Settings) -> None:
        self._kept = settings.kept
        self._lock = threading.Lock()
        self._reading = threading.Lock()  # unpacked, one may take 200 MB: one at a time
        self._found: dict[str, tuple[str, bytes]] = {}

    def bring(self, name: str, raw: bytes) -> dict[str, Any]:
        """Take a picture if it can be read; the oldest of too many goes."""
        name = plain_name(name)
        with self._reading:
            width, height = _read(raw, name).size
        with self._lock:
            key = free_id(name, self._found)
            self._found[key] = (name, raw)
            while len(self._found) > self._kept or self._size() > _BYTES:
                del self._found[next(iter(self._found))]
        return {"id": key, "name": name, "width": width, "height": height}

    def get(self, key: str) -> "Stored":
        """Return a picture as an explainer takes it: decoded, so that its name is never taken for a path."""
        if _DRAWN.fullmatch(key):
            return _named(key, key)
        found = self._found.get(key)
        if found is None:
            raise NotFound(
                f"There is no picture {key[:100]!r} here: pictures stay as long as the app runs, and the oldest of "
                f"more than {self._kept}, or of {_BYTES // 10**6} MB, go. Bring it in again."
            )
        name, raw = found
        return _named(raw, name)

    def _size(self) -> int:
        return sum(len(raw) for _, raw in self._found.values())


def _named(given: bytes | str, name: str) -> "Stored":
    from whence.data.sets.pictures import Stored

    return Stored(_read(given, name), name)


def _read(given: bytes | str, name: str) -> "Image":
    """Decode a file by the one door that all pictures come through; what its name says of it does not count."""
    from whence.data.vision.image import opened

    return opened(given, name)
