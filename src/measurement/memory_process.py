"""One figure of memory in a process of its own, which no earlier work has filled.

Everything that is compared is treated alike: libraries are loaded and tried on a few numbers, the model, its optimizer
and the optimizer's state exist, gradients do not; then the work is done once, the first time for this process.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from src.measurement.inputs import draw
from src.measurement.memory import TRIMMED, MemoryUse, memory_of
from src.measurement.options import MEMORY_ROWS, Options, num_cores
from src.measurement.ours import build_model
from src.measurement.peers import build

ROOT = Path(__file__).parents[2]


def memory_apart(name: str, row: str, options: Options) -> MemoryUse:
    """Measures one row's memory in a new process.

    Args:
        name: who does it.
        row: ``training_memory`` or ``label_map_memory``.
        options: what is measured, ``size`` being the size of the row's images.

    Raises:
        ValueError: the process failed; the end of what it said is told.
    """
    asked = json.dumps({"name": name, "row": row, "options": options.to_dict()})
    environment = os.environ | TRIMMED | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "src.measurement.memory_process", asked]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it was ended from outside, perhaps for want of memory"])[-1]
        raise ValueError(f"the memory of {name} ({row}) could not be measured: {reason}")
    return MemoryUse(**json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str]) -> None:
    """Measures, and prints one line of JSON.

    Args:
        arguments: what is asked, as JSON, and nothing else.
    """
    asked: dict[str, Any] = json.loads(arguments[0])
    options = Options.from_dict(asked["options"])
    torch.set_num_threads(options.threads or num_cores())
    print(json.dumps(asdict(measured(asked["name"], asked["row"], options))))


def measured(name: str, row: str, options: Options) -> MemoryUse:
    """Memory of a row in this process.

    Args:
        name: who does it.
        row: ``training_memory`` or ``label_map_memory``.
        options: what is measured, ``size`` being the size of the row's images.
    """
    _load_libraries(options.device)
    model = build_model(options)
    contender = build(name, replace(options, num_classes=model.num_classes), model)
    del model
    work, inputs = MEMORY_ROWS[row], draw(options)
    contender.prepare(work)
    return memory_of(lambda: contender.run(work, inputs), options.device)


def _load_libraries(device: str) -> None:
    """Runs the kernels' libraries on a few numbers, so that their code and buffers are not counted."""
    tried = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU(), nn.Conv2d(8, 8, 1)).to(device)
    images = torch.randn(2, 3, 16, 16, device=device)
    scores = tried(images).flatten(2) @ torch.randn(256, 4, device=device)
    scores.square().mean().backward()


if __name__ == "__main__":
    main(sys.argv[1:])
