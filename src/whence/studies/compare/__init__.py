"""Comparison of two models with one tokenizer, on one input or over a data set; views of a data set."""
