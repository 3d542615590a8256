"""Explanations as files and pages keep them."""
