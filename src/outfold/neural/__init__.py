"""Networks: trained by PyTorch (``pip install "outfold[neural]"``), read by NumPy alone."""

from .nets import Net
from .networks import Network

__all__ = ["Net", "Network"]
