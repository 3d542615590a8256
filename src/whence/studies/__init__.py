"""Studies: questions about a model over a data set, by evaluation, comparison, audit and training."""
