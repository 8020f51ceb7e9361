"""Tests, intervals, power and evidence: knows numbers, not engines."""
