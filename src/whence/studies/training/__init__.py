"""Training of classifiers: RNNs with attention as in Jain & Wallace, and Transformers."""
