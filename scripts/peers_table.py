"""The README's table of whence and its peers, from the results of bench/peers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.peers.page import readme

__all__ = ["readme"]
