"""What a run over a data set costs: examples a second, memory as it goes on, and rates on a GPU."""
