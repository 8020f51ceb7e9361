"""One lazily imported file for each third-party engine, server protocol or log format."""
