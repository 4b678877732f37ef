"""Neural networks: PyTorch trains them (``pip install "outfold[neural]"``), NumPy alone evaluates them."""

from .extension import Net, Training
from .network import Network

__all__ = ["Net", "Network", "Training"]
