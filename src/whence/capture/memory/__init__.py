"""Passes that fit into memory: in parts, run again instead of kept, compiled."""
