"""Loading: a built-in name, a folder, a Hub id or a model object becomes a `Loaded`."""

from whence.models.catalogue import BUILTIN, builtin_folder
from whence.models.fingerprint import fingerprint
from whence.models.load import load
from whence.models.loaded import Loaded

__all__ = ["BUILTIN", "Loaded", "builtin_folder", "fingerprint", "load"]
