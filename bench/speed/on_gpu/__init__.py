"""The sections of bench/speed/gpu.py, a function each: it measures, and logs a row for everything it measured."""
