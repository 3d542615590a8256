"""Cost of a run over a data set: examples a second, memory over time, and rates on a GPU."""
