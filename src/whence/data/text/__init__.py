"""Texts to tokens with exact offsets, and tokens back to words and larger pieces."""
