"""Re-export of the tables and drawings of docs/reference/speed.md in bench.speed.page, for build_docs.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.speed.page import DRAWINGS, TABLES

__all__ = ["DRAWINGS", "TABLES"]
