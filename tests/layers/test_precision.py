import pytest
import torch
from torch import nn

from src.layers.precision import working_dtype


@pytest.mark.parametrize("automatic", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_it_is_the_type_that_a_linear_layer_gives(automatic, dtype):
    x = torch.ones(2, 3, dtype=dtype)
    with torch.autocast("cpu", automatic or torch.bfloat16, enabled=automatic is not None):
        assert working_dtype(x) == nn.Linear(3, 4, dtype=dtype)(x).dtype
