"""Resumable runs over data sets: plan, store, workers, backends and results.

A `Plan` is the question; windows of examples are split into chunks, workers process them, and one writer puts
the records into a store. Importing this package imports none of it: workers need only a part.
"""
