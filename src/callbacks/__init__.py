"""What happens around training, validation and prediction."""

from src.callbacks.best_and_last import BestAndLast
from src.callbacks.class_table import ClassTable
from src.callbacks.image_panels import ImagePanels
from src.callbacks.learning_curves import LearningCurves
from src.callbacks.prediction_writer import PredictionWriter
from src.callbacks.prepared_network import PreparedNetwork
from src.callbacks.step_seed import StepSeed

__all__ = [
    "BestAndLast",
    "ClassTable",
    "ImagePanels",
    "LearningCurves",
    "PredictionWriter",
    "PreparedNetwork",
    "StepSeed",
]
