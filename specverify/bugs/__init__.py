"""The zoo: implementations with one known defect each, and controls that only look wrong."""
