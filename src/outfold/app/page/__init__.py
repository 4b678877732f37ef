"""The interactive page of a model: Python collects and packs the data, the scripts in ``assets`` draw them."""
