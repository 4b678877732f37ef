"""A fitted model as an HTTP service."""
