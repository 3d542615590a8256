"""Documents and their writers: text, terminal, HTML, Markdown, LaTeX, charts and pictures."""
