"""Parameter groups and schedules."""

from src.optim.recipe import OptimizerRecipe, SwinRecipe

__all__ = ["OptimizerRecipe", "SwinRecipe"]
