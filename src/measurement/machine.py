"""The machine and the versions behind a number."""

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import torch

from src import __version__
from src.measurement.options import num_cores

_PACKAGES = ("torch", "transformers", "torchvision", "segmentation-models-pytorch", "timm")


def machine() -> dict[str, Any]:
    """Processor, cores, memory, GPU and versions, in plain types."""
    versions = {"toolkit": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "processor": _from_file("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": num_cores(),
        "memory, GiB": round(int((_from_file("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) / 2**20, 1),
        "system": f"{platform.system()} {platform.release()}",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "vector instructions": torch.backends.cpu.get_cpu_capability(),
        "versions": versions,
    }


def _from_file(path: str, key: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    found = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in found if name.strip() == key), None)
