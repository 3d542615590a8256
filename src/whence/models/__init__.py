"""Loading, saving and identifying models: a built-in name, a folder, a Hub id or a model object."""

from whence.models.fingerprint import compute_fingerprint
from whence.models.load import load_model, save_model, with_infill_model
from whence.models.model import InfillModel, LoadedModel
from whence.models.model_files import BUILTIN, find_builtin_folder

__all__ = [
    "BUILTIN",
    "InfillModel",
    "LoadedModel",
    "compute_fingerprint",
    "find_builtin_folder",
    "load_model",
    "save_model",
    "with_infill_model",
]
