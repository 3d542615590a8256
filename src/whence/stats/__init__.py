"""Statistics: ranks, intervals, paired tests, and the measures of ERASER.

Nothing here knows a model or an explanation. An unknown result is None, or NaN in an array of results; the
caller puts it into words.
"""
