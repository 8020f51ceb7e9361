"""Renderings of results; the only place that knows how things look."""
