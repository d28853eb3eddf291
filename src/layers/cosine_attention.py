"""The attention of Swin V2, on the directions of queries and keys.

Shapes: M windows of N tokens with C channels, heads of d = C / heads channels.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.untouched import untouched
from src.layers.window_attention import WindowAttention

_SHORTEST = 1e-12  # length of a vector that has a direction
_LARGEST_SCALE = 100.0


class CosineAttention(WindowAttention):
    """Window attention whose logits are cosines of queries and keys, times a learned scale of each head.

    Arguments are those of :class:`src.layers.window_attention.WindowAttention`, usually with a
    :class:`src.layers.position_bias.ContinuousBias`. Queries and values may have a bias, keys have none. The scale is
    ``exp(logit_scale)``, at most 100, and 10 at the start. Lengths are taken in float32 or better.

    Source: Liu et al., "Swin Transformer V2", 2022, section 3.2, equation 2, with the published code's names and forms
    of parameters. As in ``WindowAttention``, tokens of another region are left out altogether. The published code
    lowers their logits by 100 (transformers by 200), which a scale near its limit can outweigh: a pair of one region
    may have a logit of -100, a pair of two regions one of 100 + 16 before it is lowered. There the two differ.
    """

    _scale = 1.0

    def _make_qkv(self, dim: int, qkv_bias: bool) -> None:
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim)) if qkv_bias else None
        self.v_bias = nn.Parameter(torch.zeros(dim)) if qkv_bias else None
        self.logit_scale = nn.Parameter(torch.full((self.num_heads, 1, 1), math.log(10)))

    def _project(self, tokens: Tensor) -> Tensor:
        bias = self._projected_padding()
        if untouched(self.qkv, nn.Linear):
            return F.linear(tokens, self.qkv.weight, bias)
        return self.qkv(tokens) if bias is None else self.qkv(tokens) + bias

    def _projected_padding(self) -> Tensor | None:
        if self.q_bias is None or self.v_bias is None:
            return None
        return torch.cat([self.q_bias, torch.zeros_like(self.q_bias), self.v_bias])

    def _comparable(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        dtype = torch.promote_types(q.dtype, torch.float32)
        scale = self.logit_scale.to(dtype).clamp(max=math.log(_LARGEST_SCALE)).exp()
        return (_direction(q.to(dtype)) * scale).to(q.dtype), _direction(k.to(dtype)).to(k.dtype)


def _direction(x: Tensor) -> Tensor:
    """Vectors of length 1; what has no length stays zero.

    The keys of padding are such zeros. A floor for the length, as is usual, would give them gradients of 1e12, which
    overflow half precision and make the gradient of the weights NaN.
    """
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length.masked_fill(length < _SHORTEST, math.inf)
