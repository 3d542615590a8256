"""Loading: a built-in name, a folder, a Hub id or a model object becomes a `Loaded`."""

from whence.models.catalogue import BUILTIN, builtin_folder
from whence.models.fingerprint import fingerprint
from whence.models.infill import with_infiller
from whence.models.load import load
from whence.models.loaded import Infiller, Loaded
from whence.models.save import save

__all__ = [
    "BUILTIN",
    "Infiller",
    "Loaded",
    "builtin_folder",
    "fingerprint",
    "load",
    "save",
    "with_infiller",
]
