"""The command line (``cli``), the interactive page of a model (``page``) and the HTTP service (``service``)."""
