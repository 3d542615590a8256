"""The addresses of the server, one file per subject."""
