"""What explaining costs beside the model's own passes, by shape: models from configurations, with random weights."""
