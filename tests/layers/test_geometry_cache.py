import pytest
import torch
from torch._subclasses import FakeTensor, FakeTensorMode

from src.layers.geometry_cache import cached_geometry


@pytest.fixture
def places():
    @cached_geometry(maxsize=2)
    def places(count, device):
        return torch.arange(count, device=device)

    return places


def test_the_same_arguments_give_the_same_tensor_without_computing_again(places):
    assert places(3, torch.device("cpu")) is places(3, torch.device("cpu"))
    assert places.cache_info().misses == 1


def test_the_least_recently_used_results_go(places):
    for count in (1, 2, 3, 4):
        places(count, torch.device("cpu"))
    assert places.cache_info().currsize == 2


def test_a_result_from_inference_mode_serves_in_training(places):
    with torch.inference_mode():
        index = places(3, torch.device("cpu"))
    weight = torch.ones(3, requires_grad=True)
    weight[index].sum().backward()
    assert not index.is_inference()
    assert weight.grad.tolist() == [1, 1, 1]


def test_nothing_is_kept_while_a_graph_is_traced(places):
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + places(x.shape[0], x.device)

    exported = torch.export.export(Model(), (torch.zeros(3),))
    assert exported.module()(torch.zeros(3)).tolist() == [0, 1, 2]
    assert places.cache_info().currsize == 0


def test_tensors_are_told_apart_by_identity():
    @cached_geometry(maxsize=8)
    def doubled(x):
        return 2 * x

    one, other = torch.ones(2), torch.zeros(2)
    assert doubled(one) is doubled(one)
    assert doubled(one).tolist() != doubled(other).tolist()


def test_fake_tensors_are_not_kept():
    made = cached_geometry(maxsize=4)(lambda extent: torch.arange(extent))
    with FakeTensorMode():
        assert isinstance(made(3), FakeTensor)
    assert type(made(3)) is torch.Tensor
