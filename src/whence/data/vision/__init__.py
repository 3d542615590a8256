"""Pictures to pixels and patches, and pictures drawn by ourselves."""
