"""Evaluation of methods by metrics over a data set, and the recommendation of a method."""
