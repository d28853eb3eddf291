"""What happens around training, validation and prediction."""

from src.callbacks.best_and_last import BestAndLast
from src.callbacks.class_table import ClassTable
from src.callbacks.image_panels import ImagePanels
from src.callbacks.learning_curves import LearningCurves
from src.callbacks.prediction_writer import PredictionWriter

__all__ = ["BestAndLast", "ClassTable", "ImagePanels", "LearningCurves", "PredictionWriter"]
