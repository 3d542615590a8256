"""Asking the model again, counted and in batches."""
