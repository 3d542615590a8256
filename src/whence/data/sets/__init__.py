"""Data sets: where they are, how they are read, and what an example is."""
