"""Errors, the registry, parameters, file writing and seeds: the base that every other package imports."""
