"""The version number of whence, stated only here."""

__version__ = "0.1.0"
