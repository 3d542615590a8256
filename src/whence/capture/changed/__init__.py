"""A model changed for the length of a `with` block, and what it says then."""
