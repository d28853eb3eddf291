"""Data sets, as Lightning data modules."""

from src.data.ade20k import ADE20K
from src.data.batch import Batch, Item
from src.data.datamodule import SegmentationDataModule
from src.data.image_folder import ImageFolder
from src.data.mask_folder import MaskFolder
from src.data.mixture import Mixture, Part
from src.data.pairs import Pair
from src.data.sample import Sample
from src.data.transforms import RecipeAugmentation

__all__ = [
    "ADE20K",
    "Batch",
    "ImageFolder",
    "Item",
    "MaskFolder",
    "Mixture",
    "Pair",
    "Part",
    "RecipeAugmentation",
    "Sample",
    "SegmentationDataModule",
]
