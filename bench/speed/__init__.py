"""Cost of explaining beside the model's own passes, by shape: models from configurations, random weights."""
