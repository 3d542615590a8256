"""Every operation of a forward pass, noted in order."""
