"""Dynamics: series of states, delay coordinates, and linear models of the evolution of functions of the state.

Series are rows in the order of time: an array of one series, a list of arrays, an array with labels of its rows, or a
frame indexed by (series, time).
"""

from .delays import Delays
from .dmd import DMD, EDMD

__all__ = ["DMD", "EDMD", "Delays"]
