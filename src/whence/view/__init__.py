"""What any surface may know: one payload, and how scores become shades."""

from whence.view.payload import VERSION, merge
from whence.view.shade import Shades, shades

__all__ = ["VERSION", "Shades", "merge", "shades"]
