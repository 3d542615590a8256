"""Snapshots of every result and surface, as canonical text: scripts/snapshots.py makes and compares them."""
