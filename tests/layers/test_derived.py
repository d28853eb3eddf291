import copy
import pickle
import threading

import pytest
import torch
from torch import nn

from src.layers.derived import Derived


class Counted:
    """A sum of weights that counts how often it was made."""

    def __init__(self, *sources):
        self.derived, self.sources, self.made = Derived(), list(sources), 0

    def make(self):
        self.made += 1
        return float(sum(source.double().sum() for source in self.sources))

    def get(self, options=None):
        return self.derived.get(self.sources, options, self.make)

    def true(self):
        return float(sum(source.detach().double().sum() for source in self.sources))


@pytest.fixture
def weights():
    torch.manual_seed(0)
    return [torch.randn(4, 3), torch.randn(5)]


def test_value_is_made_once(weights):
    counted = Counted(*weights)
    assert counted.get() == counted.get() == counted.true()
    assert counted.made == 1


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor.add_(1),
        lambda tensor: tensor.copy_(torch.ones_like(tensor)),
        lambda tensor: tensor[:1].mul_(3),
        lambda tensor: tensor.view(-1)[-1:].zero_(),
        lambda tensor: tensor.detach().mul_(2),
        lambda tensor: nn.init.normal_(tensor),
        lambda tensor: tensor.set_(torch.randn(tensor.shape)),
        lambda tensor: torch.add(tensor, 1, out=tensor),
    ],
)
def test_change_in_place_is_seen(weights, which, change):
    counted = Counted(*weights)
    counted.get()
    with torch.no_grad():
        change(weights[which])
    assert counted.get() == counted.get() == counted.true()
    assert counted.made == 2


def test_replaced_data_is_seen(weights):
    counted = Counted(*weights)
    counted.get()
    weights[0].data = torch.randn(4, 3)
    assert counted.get() == counted.true()


def test_data_cut_down_in_its_memory_is_seen(weights):
    counted = Counted(*weights)
    counted.get()
    weights[0].data = weights[0].data[:2]
    assert counted.get() == counted.true()


def test_replaced_tensor_is_seen(weights):
    counted = Counted(*weights)
    counted.get()
    counted.sources[1] = torch.randn(5)
    assert counted.get() == counted.true()


@pytest.mark.parametrize("cells", [8, 2**12, 2**18])
def test_a_tensor_where_a_freed_one_stood_is_told_from_it(cells):
    """Memory that is freed is often what the next tensor of the size gets."""
    counted = Counted(torch.ones(cells))
    for value in range(2, 22):
        counted.get()
        counted.sources[0] = None
        counted.sources[0] = torch.full((cells,), float(value))
        assert counted.get() == counted.true()


def test_another_shape_of_the_same_memory_is_seen(weights):
    derived = Derived()
    shapes = [derived.get([view], None, lambda view=view: view.shape) for view in (weights[0], weights[0].view(-1))]
    assert shapes == [(4, 3), (12,)]


def test_another_layout_of_the_same_memory_is_seen():
    square, derived = torch.arange(9.0).view(3, 3), Derived()
    rows = [derived.get([view], None, lambda view=view: view[0].tolist()) for view in (square, square.t())]
    assert rows == [[0, 1, 2], [0, 3, 6]]


def test_options_tell_values_apart(weights):
    counted = Counted(*weights)
    for options in ("a", ("b", 1), "a"):
        counted.get(options)
    assert counted.made == 3
    counted.get("a")
    assert counted.made == 3


@pytest.mark.parametrize("build", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("foreach", [False, True])
def test_optimizer_step_is_seen(build, foreach):
    layer = nn.Linear(3, 2)
    counted = Counted(layer.weight, layer.bias)
    optimizer = build(layer.parameters(), lr=0.1, foreach=foreach)
    with torch.no_grad():
        counted.get()
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    with torch.no_grad():
        assert counted.get() == counted.true()


@pytest.mark.parametrize("assign", [False, True])
def test_loaded_state_is_seen(assign):
    layer, other = nn.Linear(3, 2), nn.Linear(3, 2)
    derived = Derived()
    true = lambda: layer.weight.detach().double().sum().item()  # noqa: E731
    with torch.no_grad():
        derived.get([layer.weight], None, true)
        layer.load_state_dict(other.state_dict(), assign=assign)
        assert derived.get([layer.weight], None, true) == true()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_another_type_is_seen(dtype):
    layer, derived = nn.Linear(3, 2), Derived()
    with torch.no_grad():
        for target in (torch.float32, dtype, torch.float32):
            layer.to(target)
            made = derived.get([layer.weight], None, lambda: layer.weight.clone())
            assert made.dtype == target
            assert torch.equal(made, layer.weight)


@pytest.mark.parametrize("outputs", [2, 300])
def test_weights_that_came_back_from_another_type_are_seen(outputs):
    layer, derived = nn.Linear(300, outputs), Derived()
    with torch.no_grad():
        for _ in range(10):
            nn.init.normal_(layer.weight)
            derived.get([layer.weight], None, layer.weight.clone)
            layer.to(torch.bfloat16)
            layer.to(torch.float32)
            assert torch.equal(derived.get([layer.weight], None, layer.weight.clone), layer.weight)


def test_what_needs_a_gradient_is_not_kept():
    layer, made = nn.Linear(3, 2), []
    derived = Derived()
    make = lambda: made.append(0) or layer.weight * 2  # noqa: E731
    assert all(derived.get([layer.weight], None, make).requires_grad for _ in range(2))
    assert len(made) == 2
    with torch.no_grad():
        kept = [derived.get([layer.weight], None, make) for _ in range(2)]
    assert len(made) == 3
    assert not any(value.requires_grad for value in kept)
    assert derived.get([layer.weight], None, make).requires_grad


def test_what_needs_no_gradient_is_kept_under_gradients(weights):
    counted = Counted(*weights)
    assert counted.get() == counted.get()
    assert counted.made == 1


def test_frozen_weights_are_kept_until_they_are_thawed():
    layer, derived = nn.Linear(3, 2).requires_grad_(False), Derived()
    make = lambda: layer.weight * 2  # noqa: E731
    assert not derived.get([layer.weight], None, make).requires_grad
    layer.requires_grad_()
    assert derived.get([layer.weight], None, make).requires_grad


def test_inference_tensors_have_no_version_and_are_made_each_time():
    with torch.inference_mode():
        weight = torch.ones(3)
        counted = Counted(weight)
        assert counted.get() == 3
        weight.add_(1)
        assert counted.get() == 6


def test_usual_weights_are_kept_in_inference_mode_too(weights):
    counted = Counted(*weights)
    with torch.inference_mode():
        assert counted.get() == counted.get()
    with torch.no_grad():
        counted.get()
    assert counted.made == 1


def test_what_inference_mode_made_serves_training():
    layer, derived = nn.Linear(3, 2).requires_grad_(False), Derived()
    with torch.inference_mode():
        derived.get([layer.weight], None, lambda: layer.weight * 2)
    weight = derived.get([layer.weight], None, lambda: layer.weight * 2)
    features = torch.randn(4, 3, requires_grad=True)
    (features @ weight.t()).sum().backward()
    assert torch.allclose(features.grad, (2 * layer.weight).sum(0).expand(4, 3))


def test_cleared_value_is_made_anew(weights):
    counted = Counted(*weights)
    counted.get()
    weights[0].data.add_(1)  # behind autograd's back
    counted.derived.clear()
    assert counted.get() == counted.true()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_are_empty(weights, copied):
    counted = Counted(*weights)
    counted.get()
    other = copied(counted.derived)
    assert isinstance(other, Derived)
    made = []
    other.get(counted.sources, None, lambda: made.append(0))
    assert made == [0]
    counted.get()
    assert counted.made == 1


def test_threads_get_what_belongs_to_their_weights():
    derived, wrong = Derived(), []
    weights = [torch.full((50,), float(value)) for value in range(4)]

    def work(weight):
        for _ in range(300):
            if derived.get([weight], None, lambda: weight.sum().item()) != weight.sum().item():
                wrong.append(weight[0].item())

    threads = [threading.Thread(target=work, args=(weight,)) for weight in weights]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_error_while_making_keeps_nothing(weights):
    counted = Counted(*weights)
    with pytest.raises(ZeroDivisionError):
        counted.derived.get(counted.sources, None, lambda: 1 / 0)
    assert counted.get() == counted.true()
