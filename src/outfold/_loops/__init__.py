"""Compiled loops over arrays; the tests compare each with the same function written in NumPy."""
