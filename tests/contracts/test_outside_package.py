"""Parts from a package outside are trained by name, and a checkpoint finds them again."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from PIL import Image

from src.cli import SegmentationCLI
from src.inference import load_predictor
from src.tasks import SemanticSegmentation

ROOT = Path(__file__).parents[2]

PARTS = """
    from collections.abc import Sequence

    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F

    from src.classes import ClassList
    from src.data import SegmentationDataModule
    from src.data.pairs import match_pairs
    from src.models import FeatureSpec


    class Pyramid(nn.Module):
        def __init__(self, channels: int, steps: int = 2) -> None:
            super().__init__()
            self.feature_specs = [FeatureSpec(channels, 4 * 2**step) for step in range(steps)]
            self.stem = nn.Conv2d(3, channels, 1)

        def forward(self, images: Tensor) -> list[Tensor]:
            sizes = [spec.size(*images.shape[-2:]) for spec in self.feature_specs]
            return [F.adaptive_avg_pool2d(self.stem(images), size) for size in sizes]


    class Linear(nn.Module):
        def __init__(self, features: Sequence[FeatureSpec], num_classes: int, level: int = 0) -> None:
            super().__init__()
            self.level, self.stride = level, features[level].stride
            self.conv_seg = nn.Conv2d(features[level].channels, num_classes, 1)

        def forward(self, maps: Sequence[Tensor]) -> Tensor:
            return self.conv_seg(maps[self.level])


    class Squared(nn.Module):
        def __init__(self, power: float = 2.0) -> None:
            super().__init__()
            self.power = power

        def forward(self, logits: Tensor, masks: Tensor) -> Tensor:
            masks = F.interpolate(masks[:, None].float(), logits.shape[-2:])[:, 0].long()
            wanted = F.one_hot(masks.clamp(max=1), 2).permute(0, 3, 1, 2)
            return ((logits.softmax(1) - wanted).abs() ** self.power).mean()


    class Tiles(SegmentationDataModule):
        def __init__(self, folder: str, **common) -> None:
            super().__init__(classes=ClassList.from_names(["field", "road"]), **common)
            self.folder = folder

        def pairs(self, split):
            return match_pairs(f"{self.folder}/{split}/images", f"{self.folder}/{split}/masks")
"""

CONFIG = """
    model:
      class_path: src.tasks.SemanticSegmentation
      init_args:
        model:
          class_path: src.models.Segmenter
          init_args:
            encoder: {class_path: landcover.parts.Pyramid, init_args: {channels: 6, steps: 3}}
            decoder: {class_path: landcover.parts.Linear, init_args: {level: 1}}
            auxiliary: {class_path: landcover.parts.Linear}
        loss: {class_path: landcover.parts.Squared, init_args: {power: 1.5}}
        optimizer: {class_path: src.optim.SwinRecipe}
    data:
      class_path: landcover.parts.Tiles
      init_args: {folder: tiles, batch_size: 2, crop_size: 32, num_workers: 0}
    trainer: {accelerator: cpu, max_steps: 2, num_sanity_val_steps: 0, enable_progress_bar: false, logger: false}
    """


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder with the package, on the path until the end of the test."""
    folder = tmp_path / "elsewhere"
    (folder / "landcover").mkdir(parents=True)
    (folder / "landcover" / "__init__.py").touch()
    (folder / "landcover" / "parts.py").write_text(dedent(PARTS))
    monkeypatch.syspath_prepend(folder)
    yield folder
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "landcover"]:
        del sys.modules[name]


@pytest.fixture
def checkpoint(package, tmp_path, monkeypatch) -> Path:
    """What two steps of training left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["src"])
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for kind in ("images", "masks"):
            Path("tiles", split, kind).mkdir(parents=True)
        for index in range(3):
            image = rng.integers(0, 256, (40, 50 + index, 3), dtype=np.uint8)
            Image.fromarray(image).save(f"tiles/{split}/images/{index}.png")
            Image.fromarray(image[:, :, 0] // 128).save(f"tiles/{split}/masks/{index}.png")
    Path("own.yaml").write_text(dedent(CONFIG))
    SegmentationCLI("fit", ["--config", "own.yaml"])
    return next(Path("runs").rglob("last.ckpt"))


def test_parts_from_outside_train_and_predict_from_the_checkpoint_alone(checkpoint, package):
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{package}"}
    command = [sys.executable, "-P", "-m", "src.predict", "--ckpt_path", str(checkpoint), "--output", "predicted"]
    subprocess.run(
        [*command, "--data.images", "tiles/val/images"], check=True, timeout=120, capture_output=True, env=environment
    )
    predictor = load_predictor(checkpoint)
    assert type(predictor.model.encoder).__module__ == "landcover.parts"
    for index in range(3):
        mask = np.asarray(Image.open(f"predicted/{index}.png"))
        assert np.array_equal(mask, predictor(f"tiles/val/images/{index}.png").numpy())
    task = SemanticSegmentation.load_from_checkpoint(checkpoint)
    assert (type(task.loss).__name__, task.loss.power) == ("Squared", 1.5)
    assert (task.model.decoder.level, task.model.auxiliary.level) == (1, 0)


def test_a_package_that_is_missing_is_told_with_the_class(checkpoint, package, monkeypatch):
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(package)])
    forget()
    told = r"last\.ckpt: landcover\.parts\.\w+ is needed .* cannot be imported \(No module named 'landcover'\); install"
    with pytest.raises(ImportError, match=told):
        load_predictor(checkpoint)
    with pytest.raises(ImportError, match=told):
        SemanticSegmentation.load_from_checkpoint(checkpoint)
    with pytest.raises(ImportError, match=told):
        SegmentationCLI("predict", ["--ckpt_path", str(checkpoint), "--data.images", "tiles", "--output", "predicted"])
    assert not Path("predicted").exists()
