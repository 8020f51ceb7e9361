"""Figures, one module each: a pure function from a study's content to a matplotlib figure."""
