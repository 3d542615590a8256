"""Sections of bench/speed/gpu.py, a function each, which logs a row for every measurement."""
