"""Layers, models, weights, losses and label maps serve anyone who has torch, and what transformers needs, alone."""

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = ("torch", "numpy", "safetensors", "huggingface_hub", "PyYAML", "filelock", "transformers")
ALONE = """
import json, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None  # whoever imports it is told that it is not there
"""


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(names: tuple[str, ...]) -> set[str]:
    """Distributions that these need, and those that they need, without extras."""
    known: set[str] = set()
    left = [*names]
    while left:
        name = plain(left.pop())
        if name in known:
            continue
        known.add(name)
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        left += [re.match(r"[\w.-]+", line)[0] for line in lines if "extra ==" not in line]
    return known


def others() -> list[str]:
    """Packages installed here that none of the allowed ones needs."""
    allowed = needed(ALLOWED)
    installed = metadata.packages_distributions()
    return sorted(
        name
        for name, owners in installed.items()
        if name not in ("src", "tests") and name.isidentifier() and not allowed & {plain(owner) for owner in owners}
        and name not in sys.stdlib_module_names and not name.startswith("_")
    )  # fmt: skip


def run(code: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", ALONE + code, json.dumps(others()), *arguments],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def test_the_large_libraries_are_shut_out():
    heavy = {"lightning", "torchvision", "segmentation_models_pytorch", "albumentations", "cv2", "PIL", "torchmetrics"}
    assert heavy | {"omegaconf", "jsonargparse", "matplotlib", "rich", "timm"} <= {*others(), "timm", "rich"}
    assert not {"torch", "numpy", "safetensors", "huggingface_hub", "yaml", "filelock"} & {*others()}
    refused = run("import cv2")
    assert refused.returncode != 0
    assert "ModuleNotFoundError" in refused.stderr


@pytest.mark.parametrize("room", ["layers", "models", "weights", "losses", "inference"])
def test_a_room_is_imported(room: str):
    done = run(f"import src.{room}")
    assert done.returncode == 0, done.stderr


def test_the_model_of_transformers_that_a_gpu_is_measured_on_is_built():
    pytest.importorskip("transformers")
    done = run(
        """
from src.measurement.transformers_model import transformers_model
from src.models import swin_upernet
model = swin_upernet("tiny", 5, embed_dim=8, depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2))
print(type(transformers_model(model)).__name__)
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "UperNetForSemanticSegmentation"


def test_a_model_is_trained_saved_loaded_and_asked(tmp_path: Path):
    done = run(
        """
import torch
from src.inference import label_map
from src.losses import CrossEntropy
from src.models import swin_upernet
from src.weights import load_weights
small = {"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 2, 2), "window_size": 4}
model = swin_upernet("tiny", 5, **small).train()
output = model(torch.randn(2, 3, 40, 56))
CrossEntropy()(output.logits, torch.randint(5, (2, 40, 56))).backward()
path = sys.argv[2] + "/weights.pth"
torch.save(model.state_dict(), path)
other = swin_upernet("tiny", 5, **small).eval()
load_weights(other, path)
model.eval()
images = torch.randn(1, 3, 33, 47)
with torch.inference_mode():
    labels = label_map(other(images).logits, (33, 47))
    assert torch.equal(labels, label_map(model(images).logits, (33, 47)))
print(tuple(labels.shape))
""",
        str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "(1, 33, 47)"
