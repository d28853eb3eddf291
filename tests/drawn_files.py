"""Small image and mask files for the tests of this room."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from src.data.pairs import Pair

REAL_DATA = Path(__file__).parents[2] / "shared" / "data"


def save(path: Path, pixels: np.ndarray, mode: str | None = None, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(pixels)
    (image if mode is None else image.convert(mode)).save(path, **options)
    return path


def texture(size: tuple[int, int], seed: int = 0, channels: int = 3) -> np.ndarray:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, channels), dtype=np.uint8)
    return pixels if channels > 1 else pixels[:, :, 0]


def labels(size: tuple[int, int], ids: Sequence[int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).choice(np.array(ids, np.uint8), size)


def mask_folders(root: Path, sizes: Sequence[tuple[int, int]], ids: Sequence[int] = (0, 1)) -> dict[str, str]:
    """Arguments of ``MaskFolder`` for images of these sizes."""
    for index, size in enumerate(sizes):
        save(root / "images" / f"{index:02d}.png", texture(size, index))
        save(root / "masks" / f"{index:02d}.png", labels(size, ids, index))
    (root / "classes.txt").write_text("".join(f"{class_id} class {class_id}\n" for class_id in ids if class_id != 255))
    return {"images": f"{root}/images", "masks": f"{root}/masks", "classes": f"{root}/classes.txt"}


def drawn_pair(root: Path, size: tuple[int, int], ids: tuple[int, ...] = (0, 1)) -> Pair:
    image = save(root / "image.png", texture(size))
    return Pair("image.png", image, save(root / "mask.png", labels(size, ids)))
