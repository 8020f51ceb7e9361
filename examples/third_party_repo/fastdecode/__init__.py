"""Kernels of a library that does speculative decoding."""
