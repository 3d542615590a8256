"""Where things are in a model: found out by trying, not by names."""
