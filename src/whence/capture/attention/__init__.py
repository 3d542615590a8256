"""How a model attends, seen while it does."""
