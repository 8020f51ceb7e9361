"""Speed, ours beside the peers' in the same run: nothing here decides whether anything passes."""
