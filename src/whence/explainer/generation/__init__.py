"""What a language model goes on with, and why."""
