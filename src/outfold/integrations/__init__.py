"""Functions for the data structures of other libraries."""
