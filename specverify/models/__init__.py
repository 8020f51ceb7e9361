"""Models to decode with: tabular ones with exact laws, and small real GPTs."""
