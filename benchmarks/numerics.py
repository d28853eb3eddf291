"""Errors of the convolutions against float64, as the table of docs/numerics.md: ``python benchmarks/numerics.py``."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor

from src.layers.conv3x3 import Kernel, conv_gradients
from src.layers.upsampled_conv import upsampled_conv
from src.models import Execution, swin_upernet

SEEDS = 3


def shares(result: Tensor, expected: Tensor) -> tuple[float, float]:
    """Largest and root mean square error, each as a share of the same of the expected values."""
    error = result.double() - expected
    return (
        (error.abs().max() / expected.abs().max()).item(),
        (error.square().mean().sqrt() / expected.square().mean().sqrt()).item(),
    )


def worst(pairs: list[tuple[float, float]]) -> str:
    return " / ".join(f"{max(values):.1e}" for values in zip(*pairs, strict=True))


def convolution(channels: int, method: str, of: str) -> str:
    found = []
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        maps = torch.randn(1, channels, 48, 48, dtype=torch.float64).relu()
        weight = torch.randn(channels, channels, 3, 3, dtype=torch.float64) * (2 / (9 * channels)) ** 0.5
        gradient = torch.randn(1, channels, 48, 48, dtype=torch.float64)
        few, many = (maps.float(), weight.float(), gradient.float()), (maps, weight, gradient)
        if of == "result":
            expected = F.conv2d(maps, weight, padding=1)
            result = F.conv2d(few[0], few[1], padding=1)
            if method != "direct":
                rows = torch.empty(1, 48, 48, channels)
                Kernel.prepared(few[1], (48, 48), method).write(rows, few[0])  # type: ignore[arg-type]
                result = rows.permute(0, 3, 1, 2)
        else:
            place = ("maps", "weight").index(of)
            expected = plain_gradients(*many)[place]
            if method == "direct":
                result = plain_gradients(*few)[place]
            else:
                result = conv_gradients(*few, method, (True, True))[place]  # type: ignore[arg-type, assignment]
        found.append(shares(result, expected))
    return worst(found)


def plain_gradients(maps: Tensor, weight: Tensor, gradient: Tensor) -> tuple[Tensor, ...]:
    maps, weight = maps.clone().requires_grad_(), weight.clone().requires_grad_()
    return torch.autograd.grad(F.conv2d(maps, weight, padding=1), (maps, weight), gradient)


def upsampled(ours: bool) -> str:
    found = []
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        maps = torch.randn(1, 512, 24, 24, dtype=torch.float64).relu()
        weight = torch.randn(512, 512, 3, 3, dtype=torch.float64) * (2 / (9 * 512)) ** 0.5
        expected = F.conv2d(F.interpolate(maps, (48, 48), mode="bilinear"), weight, padding=1)
        few = maps.float(), weight.float()
        if ours:
            result = upsampled_conv([few[0]], few[1], (48, 48))
        else:
            result = F.conv2d(F.interpolate(few[0], (48, 48), mode="bilinear"), few[1], padding=1)
        found.append(shares(result, expected))
    return worst(found)


@torch.no_grad()
def model(method: str) -> str:
    torch.manual_seed(0)
    network = swin_upernet("tiny", 150).eval()
    images = torch.randn(1, 3, 256, 256)
    result = Execution(numerics=method).prepare(network)(images).logits  # type: ignore[arg-type]
    return worst([shares(result, network.double()(images.double()).logits)])


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("largest / root mean square error, as shares of the largest / root mean square value\n")
    print("| | direct | exact | fast |\n|---|---|---|---|")
    for of, what in (("result", "result"), ("maps", "gradient of the maps"), ("weight", "gradient of the weight")):
        for channels in (256, 512):
            row = [convolution(channels, method, of) for method in ("direct", "exact", "fast")]
            print(f"| 3x3, {channels} channels, {what} | {' | '.join(row)} |")
    print(f"| 3x3 of a map upsampled twofold | {upsampled(False)} | {upsampled(True)} | the same |")
    print(f"| logits of Swin-T, weights at random | | {model('exact')} | {model('fast')} |")


if __name__ == "__main__":
    main()
