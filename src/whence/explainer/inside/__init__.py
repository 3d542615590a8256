"""One input, seen from inside the model."""
