"""Biases that attention adds for the places of query and key, one per file."""

from src.layers.position_bias.continuous import ContinuousBias
from src.layers.position_bias.contract import PositionBias
from src.layers.position_bias.table import TableBias

__all__ = ["ContinuousBias", "PositionBias", "TableBias"]
