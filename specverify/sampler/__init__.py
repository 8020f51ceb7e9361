"""The reference sampler: verification of blocks, and the decode loops around it."""
