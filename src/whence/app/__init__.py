"""The local server with its page, and the notebook widget."""
