"""What any surface may know: one payload, and how scores become shades."""

from whence.view.payload import VERSION, listed, merge
from whence.view.shade import Shades, shades

__all__ = ["VERSION", "Shades", "listed", "merge", "shades"]
