"""The engine: a fit runs its stages once; the fitted model is one formula, ``row(x) @ basis``."""
