"""Scores of label maps."""

from src.metrics.scores import Scores

__all__ = ["Scores"]
