"""Predict jobs small enough for a test; as a program, with ``DEVICES SECONDS IMAGES OUTPUT [IMAGES OUTPUT ...]``."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Trainer
from PIL import Image

from src.callbacks import PredictionWriter
from src.classes import ClassList
from src.data import ImageFolder
from src.models import Segmenter, SwinTransformer, UPerNetDecoder
from src.tasks import SemanticSegmentation


def small_task(seed: int = 0, names: str = "abc", padded_keys: str = "attend") -> SemanticSegmentation:
    torch.manual_seed(seed)
    small = {"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 2, 2), "window_size": 4}
    encoder = SwinTransformer(**small, padded_keys=padded_keys)
    model = Segmenter(encoder, lambda features, k: UPerNetDecoder(features, k, channels=8), num_classes=3)
    return SemanticSegmentation(model, ClassList(tuple(names), ((1, 2, 3), (40, 50, 60), (7, 8, 9))))


def draw_images(folder: Path, sizes: dict[str, tuple[int, int]]) -> Path:
    for seed, (name, (height, width)) in enumerate(sizes.items()):
        coarse = np.random.default_rng(seed).integers(0, 256, (-(-height // 8), -(-width // 8), 3), dtype=np.uint8)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = coarse.repeat(8, axis=0).repeat(8, axis=1)[:height, :width]
        Image.fromarray(pixels).save(folder / name)
    return folder


def run_job(
    images: str | Path | list[str],
    output: Path,
    task: SemanticSegmentation | None = None,
    data: type[ImageFolder] = ImageFolder,
    trainer: dict[str, Any] | None = None,
    writer: dict[str, Any] | None = None,
    ckpt_path: Path | None = None,
    **settings: Any,
) -> PredictionWriter:
    callback = PredictionWriter(str(output), **writer or {})
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    made = Trainer(accelerator="cpu", use_distributed_sampler=False, callbacks=[callback], **quiet | (trainer or {}))
    images = [str(image) for image in images] if isinstance(images, list) else str(images)
    made.predict(
        task or small_task(),
        data(images, **{"num_workers": 0} | settings),
        return_predictions=False,
        ckpt_path=ckpt_path,
        weights_only=True,
    )
    return callback


def written(output: Path) -> dict[str, bytes]:
    return {path.relative_to(output).as_posix(): path.read_bytes() for path in output.rglob("*.png")}


class Slow(ImageFolder):
    """Images that take a while to read."""

    seconds = 0.0

    @staticmethod
    def read_image(path: Path, channels: int = 3) -> np.ndarray:
        time.sleep(Slow.seconds)
        return ImageFolder.read_image(path, channels)


if __name__ == "__main__":
    torch.set_num_threads(1)
    Slow.seconds = float(sys.argv[2])
    devices = {"devices": int(sys.argv[1]), "strategy": "auto" if sys.argv[1] == "1" else "ddp"}
    for given, folder in zip(sys.argv[3::2], sys.argv[4::2], strict=True):
        try:
            failures = list(run_job(given, Path(folder), data=Slow, trainer=devices).failures)
            # at once and in one piece: two processes write here, and one that the other ends flushes nothing
            os.write(1, f"failures: {failures}\n".encode())
        except ValueError as error:
            print("refused:", error)
