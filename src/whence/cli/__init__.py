"""The command line interface: one file per command."""
