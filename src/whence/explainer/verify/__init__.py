"""Explanations put to the test, and inputs explained again for it."""
