"""Re-export of bench.peers.page.render_readme, the README's table of peers, for build_docs.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.peers.page import render_readme

__all__ = ["render_readme"]
