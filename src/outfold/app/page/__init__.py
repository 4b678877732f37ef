"""The page of a model: what it shows, gathered and packed in Python, and drawn by our own scripts in ``assets``."""
