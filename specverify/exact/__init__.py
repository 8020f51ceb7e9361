"""The exact output law of a callable, by enumerating its random choices."""
