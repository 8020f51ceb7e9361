"""The suite inside other people's tests."""
