"""Published weights: reading every layout they come in, fitting them to a model, writing them back."""

from src.weights.load import load_weights
from src.weights.options import LoadOptions
from src.weights.report import WeightsReport

__all__ = ["LoadOptions", "WeightsReport", "load_weights"]
