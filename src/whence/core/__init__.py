"""What every room may know: types, registry, errors, parameters, seeds, files."""
