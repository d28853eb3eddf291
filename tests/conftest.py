"""What several rooms' tests share: a sample made once, a model small enough to train in a second, and its config."""

from pathlib import Path
from textwrap import dedent

import pytest
import torch

from src.data.sample import make_pictures
from src.models import FCNHead, Segmenter, SwinTransformer, UPerNetDecoder

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def sample_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sample") / "pictures"
    make_pictures(root)
    return root


@pytest.fixture
def tiny_segmenter():
    def build(num_classes: int = 8, **settings) -> Segmenter:
        torch.manual_seed(0)
        small = {"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 2, 2), "window_size": 4}
        return Segmenter(
            SwinTransformer(**small | {"drop_path_rate": 0.0} | settings),
            lambda features, num_classes: UPerNetDecoder(features, num_classes, channels=8),
            lambda features, num_classes: FCNHead(features, num_classes, channels=8),
            num_classes=num_classes,
        )

    return build


@pytest.fixture
def tiny_config(sample_root: Path, tmp_path: Path) -> Path:
    """Two training steps on four-pixel crops' worth of work: enough to go through every part of a run."""
    path = tmp_path / "tiny.yaml"
    path.write_text(
        dedent(f"""
        model:
          class_path: src.tasks.SemanticSegmentation
          init_args:
            model:
              class_path: src.models.Segmenter
              init_args:
                encoder:
                  class_path: src.models.SwinTransformer
                  init_args: {{embed_dim: 8, depths: [1, 1, 1, 1], num_heads: [1, 1, 2, 2], window_size: 4}}
                decoder:
                  class_path: src.models.UPerNetDecoder
                  init_args: {{channels: 8}}
                auxiliary:
                  class_path: src.models.FCNHead
                  init_args: {{channels: 8}}
            optimizer:
              class_path: src.optim.SwinRecipe
        data:
          class_path: src.data.Sample
          init_args: {{root: {sample_root}, batch_size: 2, crop_size: 32, num_workers: 0}}
        trainer:
          accelerator: cpu
          max_steps: 2
          limit_val_batches: 2
          limit_test_batches: 2
          num_sanity_val_steps: 0
          enable_progress_bar: false
          enable_model_summary: false
          log_every_n_steps: 1
        """)
    )
    return path
