"""Attention in shifted windows at half precision against the plain softmax in float32, kernel by kernel."""

from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from src.layers.position_bias import TableBias
from src.layers.window_attention import WindowAttention

LIMITS = {torch.float16: 1e-2, torch.bfloat16: 3e-2}
"""What rounding alone may make of it; a kernel that misreads the mask is wrong by about 1."""
KERNELS = {
    "as chosen": None,
    "memory efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
}


class AttentionError(NamedTuple):
    dtype: str
    kernel: str
    how: str
    error: float | None
    fits: bool

    def __str__(self) -> str:
        told = "not available" if self.error is None else f"{self.error:.1e}{'' if self.fits else '  TOO LARGE'}"
        return f"shifted windows, {self.dtype}, {self.how}, {self.kernel}: largest error {told}"


def attention_errors(device: torch.device) -> list[AttentionError]:
    """The largest error of each precision and kernel, relative to the largest value."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    attention = WindowAttention(96, 3, (7, 7), TableBias((7, 7), 3), shift=(3, 3)).to(device)
    for name, parameter in attention.named_parameters():
        scale = 1.0 if "bias" in name else 2 * parameter[0].numel() ** -0.5
        parameter.data.copy_(scale * torch.randn(parameter.shape, generator=generator))
    maps = torch.randn(2, 57, 60, 96, generator=generator).to(device)  # 57 x 60: the last windows are padded
    kernels = KERNELS if device.type == "cuda" else {"as chosen": None}
    with torch.no_grad():
        with sdpa_kernel(SDPBackend.MATH):
            expected = attention(maps)
        return [
            _error(attention, maps, expected, dtype, name, how)
            for dtype in LIMITS
            for how in ("autocast", "cast")
            for name in kernels
        ]


def _error(
    attention: WindowAttention, maps: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, kernel: str, how: str
) -> AttentionError:
    backend = KERNELS[kernel]
    chosen = nullcontext() if backend is None else sdpa_kernel(backend)
    try:
        with chosen:
            if how == "autocast":
                with torch.autocast(maps.device.type, dtype):
                    given = attention(maps)
            else:
                given = attention.to(dtype)(maps.to(dtype))
    except RuntimeError:  # no kernel of this kind takes it
        return AttentionError(str(dtype), kernel, how, None, True)
    finally:
        attention.float()
    error = ((given.float() - expected).abs().max() / expected.abs().max()).item()
    return AttentionError(str(dtype), kernel, how, error, error <= LIMITS[dtype])
