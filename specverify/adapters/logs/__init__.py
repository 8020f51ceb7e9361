"""What engines print about speculation, read into one kind of record; one file a format."""
