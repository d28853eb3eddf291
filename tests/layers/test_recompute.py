import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from src.layers.recompute import Recomputed, not_kept
from tests.layers.kept_storages import kept_storages


class Network:
    """``tanh(x) * 2``, made again from ``x``, between two convolutions."""

    def __init__(self, users=1, dtype=torch.float32):
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 4, 1, dtype=dtype)
        self.users = [nn.Conv2d(4, 5, 3, padding=1, dtype=dtype) for _ in range(users)]
        self.parameters = [p for module in (self.first, *self.users) for p in module.parameters()]
        self.made = 0
        self.images = torch.randn(2, 3, 6, 7, dtype=dtype)

    def middle(self):
        source = self.first(self.images)
        kept = source.detach()

        def make():
            self.made += 1
            return kept.tanh() * 2

        return source.tanh() * 2, Recomputed(make, "cpu")

    def loss(self, recomputed=True):
        tensor, recipe = self.middle()
        with not_kept((tensor, recipe)) if recomputed else nullcontext():
            results = [user(tensor) for user in self.users]
        return sum(result.float().square().sum() * (i + 1) for i, result in enumerate(results))

    def gradients(self, **options):
        return torch.autograd.grad(self.loss(**options), self.parameters)


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("users", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gradients_are_the_same_to_the_last_bit(users, dtype):
    network = Network(users, dtype)
    assert same(network.gradients(recomputed=True), network.gradients(recomputed=False))


@pytest.mark.parametrize("users", [1, 2, 3])
def test_one_making_serves_all_users(users):
    network = Network(users)
    network.loss().backward()
    assert network.made == 1


def test_graph_keeps_the_recipe_in_the_place_of_the_tensor():
    """What the graph keeps without the recipe it keeps of nothing else with it."""
    network = Network()
    tensor, recipe = network.middle()
    with kept_storages() as without:
        network.users[0](tensor)
    with kept_storages() as kept, not_kept((tensor, recipe)):
        result = network.users[0](tensor)
    weight = network.users[0].weight
    assert sorted(without) == sorted([weight.nbytes, tensor.nbytes])
    assert kept == [weight.nbytes]
    with torch.no_grad():
        tensor.zero_()  # nobody needs it any more, so no version of it is held against this
    result.square().sum().backward()
    assert network.made == 1
    expected, _ = network.middle()
    (true,) = torch.autograd.grad(network.users[0](expected).square().sum(), network.users[0].weight)
    assert torch.equal(network.users[0].weight.grad, true)


def test_other_tensors_are_kept_as_ever():
    network = Network()
    tensor, recipe = network.middle()
    factor = torch.randn(2, 4, 6, 7, requires_grad=True)
    with not_kept((tensor, recipe)):
        result = tensor * factor
    (found,) = torch.autograd.grad(result.sum(), factor, retain_graph=True)
    assert torch.equal(found, tensor)
    (found,) = torch.autograd.grad(result.sum(), network.first.bias)
    assert torch.allclose(found, (factor * (2 - tensor.square() / 2)).sum((0, 2, 3)), atol=1e-5)


def test_a_view_of_the_tensor_is_kept_as_it_is():
    network = Network()
    tensor, recipe = network.middle()
    weight = torch.randn(4, requires_grad=True)
    with not_kept((tensor, recipe)):
        result = tensor.permute(0, 2, 3, 1) @ weight
    result.sum().backward()
    assert torch.allclose(weight.grad, tensor.sum((0, 2, 3)), atol=1e-4)


def test_a_recipe_without_a_tensor_stands_for_all_that_is_kept():
    source = torch.randn(3, 4, requires_grad=True)
    kept = source.detach()
    recipe = Recomputed(lambda: kept.exp(), "cpu")
    with kept_storages() as sizes, not_kept((None, recipe)):
        result = source.exp()
    assert sizes == []
    result.sum().backward()
    assert torch.equal(source.grad, kept.exp())


def test_without_recipes_all_is_kept_as_ever():
    tensor = torch.randn(3, requires_grad=True)
    with kept_storages() as kept, not_kept((tensor, None)):
        tensor.square()
    assert kept == [tensor.nbytes]


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("users", [1, 2])
def test_a_kept_graph_goes_backward_again(times, users):
    network = Network(users)
    expected, loss = network.gradients(recomputed=False), network.loss()
    for _ in range(times):
        assert same(torch.autograd.grad(loss, network.parameters, retain_graph=True), expected)


def test_part_of_a_backward_pass_leaves_the_rest_right():
    network = Network(2)
    expected, loss = network.gradients(recomputed=False), network.loss()
    (first,) = torch.autograd.grad(loss, network.users[1].weight, retain_graph=True)
    assert torch.equal(first, expected[4])
    assert same(torch.autograd.grad(loss, network.parameters), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_automatic_precision_is_that_of_the_forward_pass(dtype):
    source, weight = torch.randn(3, 4, requires_grad=True), torch.randn(4, 4)
    types = []

    def make():
        types.append((source.detach() @ weight).dtype)
        return source.detach() @ weight

    with torch.autocast("cpu", dtype):
        recipe = Recomputed(make, "cpu")
    made = recipe()
    with torch.autocast("cpu", dtype, enabled=False):
        plain = Recomputed(make, "cpu")
    with torch.autocast("cpu", dtype):
        plain()
    assert types == [dtype, torch.float32]
    assert made.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_under_automatic_precision_are_the_same(dtype):
    network = Network(2)
    found = []
    for recomputed in (True, False):
        with torch.autocast("cpu", dtype):
            loss = network.loss(recomputed)
        found.append(torch.autograd.grad(loss, network.parameters))
    assert same(*found)


def nested(counts, outer_users=1):
    """A recipe of a recipe: the tanh of a map, and twice the tanh and one."""
    source = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    kept = source.detach()

    def make_inner():
        counts["inner"] += 1
        return kept.tanh()

    def make_outer():
        counts["outer"] += 1
        return inner() * 2 + 1

    inner = Recomputed(make_inner, "cpu")
    outer = Recomputed(make_outer, "cpu", inner)
    first = source.tanh()
    with not_kept((None, inner)):
        middle = source.tanh()
    last = middle * 2 + 1
    weights = [torch.randn(4, 4, requires_grad=True) for _ in range(outer_users)]
    with not_kept((last, outer)):
        loss = sum((last @ weight).sum() for weight in weights)
    return source, first, weights, loss


@pytest.mark.parametrize("users", [1, 2])
def test_nested_recipes_are_made_once_each(users):
    counts = {"inner": 0, "outer": 0}
    source, first, weights, loss = nested(counts, users)
    loss.backward()
    assert counts == {"inner": 1, "outer": 1}
    last = (first * 2 + 1).detach()
    assert all(torch.allclose(weight.grad, last.sum(0)[:, None].expand(4, 4), atol=1e-5) for weight in weights)
    expected = 2 * (1 - first.detach().square()) * sum(weight.sum(1) for weight in weights)
    assert torch.allclose(source.grad, expected, atol=1e-5)


def test_nested_recipes_go_backward_again():
    counts = {"inner": 0, "outer": 0}
    source, _, weights, loss = nested(counts)
    found = [torch.autograd.grad(loss, [source, *weights], retain_graph=True) for _ in range(3)]
    assert same(found[0], found[1])
    assert same(found[0], found[2])


def test_made_tensors_are_not_part_of_a_graph():
    weight = torch.ones(3, requires_grad=True)
    assert not Recomputed(lambda: weight * 2, "cpu")().requires_grad


def test_a_weight_changed_in_between_is_refused_as_ever():
    norm, user = nn.BatchNorm2d(4), nn.Conv2d(4, 5, 1)
    convolved = torch.randn(2, 4, 5, 5, requires_grad=True)
    kept = convolved.detach()
    make = lambda: nn.functional.batch_norm(kept, None, None, norm.weight, norm.bias, training=True)  # noqa: E731
    normed = norm(convolved)
    with not_kept((normed, Recomputed(make, "cpu"))):
        result = user(normed)
    with torch.no_grad():
        norm.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("users", [1, 2])
def test_nothing_is_held_after_the_backward_pass(users):
    network = Network(users)
    tensor, recipe = network.middle()
    made = []
    usual = recipe._make
    recipe._make = lambda: made.append(weakref.ref(result := usual())) or result
    with not_kept((tensor, recipe)):
        loss = sum(user(tensor).sum() for user in network.users)
    alive = weakref.ref(recipe)
    loss.backward()
    gc.collect()
    assert [each() for each in made] == [None]
    del recipe, loss, tensor
    gc.collect()
    assert alive() is None


def test_a_graph_that_goes_away_takes_its_recipes_along():
    network = Network()
    tensor, recipe = network.middle()
    with not_kept((tensor, recipe)):
        loss = network.users[0](tensor).sum()
    alive = weakref.ref(recipe)
    del tensor, recipe, loss
    gc.collect()
    assert alive() is None
