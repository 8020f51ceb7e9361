"""Closed forms and exact laws of speculative decoding."""
