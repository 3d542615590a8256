"""The app: a local server and the page it serves. Explanations, flows, trust and comparisons, to look at."""
