import copy
import functools

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from src.models import Execution, FCNHead, Segmenter, SwinTransformer, UPerNetDecoder, swin_upernet
from tests.models.random_weights import randomise

SMALL = {"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 2, 2), "window_size": 4, "drop_path_rate": 0.0}


def small():
    torch.manual_seed(0)
    return randomise(swin_upernet("tiny", 5, **SMALL)).eval()


def relative(one, other):
    return ((one - other).abs().max() / other.abs().max()).item()


@torch.no_grad()
def test_numerics_reach_every_convolution_and_change_little():
    model, images = small(), torch.randn(1, 3, 96, 128)
    exact = model(images).logits
    fast = Execution(numerics="fast").prepare(model)(images).logits
    assert {module.numerics for module in model.modules() if hasattr(module, "numerics")} == {"fast"}
    assert 0 < relative(fast, exact) < 1e-4
    assert torch.equal(Execution().prepare(model)(images).logits, exact)


def test_nothing_of_it_is_in_the_state_dict_or_the_settings():
    model, plain = Execution("fast", compile=True, channels_last=True).prepare(small()), small()
    assert list(model.state_dict()) == list(plain.state_dict())
    assert all(torch.equal(model.state_dict()[name], value) for name, value in plain.state_dict().items())
    assert model.settings == plain.settings


@torch.no_grad()
def test_convolutions_are_stored_channels_last():
    model = Execution(channels_last=True).prepare(small())
    weight = model.decoder.fpn_bottleneck.conv.weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    images = torch.randn(2, 3, 50, 70)
    assert relative(model(images).logits, small()(images).logits) < 1e-5


def two_stages():
    """As little as has every part: compiling takes its time."""
    torch.manual_seed(0)
    encoder = SwinTransformer(8, (1, 1), (1, 1), window_size=4, drop_path_rate=0.0)
    decoder = functools.partial(UPerNetDecoder, channels=8, pool_sizes=(1,), dropout=0.0)
    auxiliary = functools.partial(FCNHead, level=1, channels=8, dropout=0.0)
    return randomise(Segmenter(encoder, decoder, auxiliary, num_classes=3))


@torch.no_grad()
def test_a_compiled_model_computes_the_same():
    plain = two_stages().eval()
    torch._dynamo.reset()
    compiled = Execution(compile=True).prepare(copy.deepcopy(plain))
    images = torch.randn(2, 3, 21, 38)
    assert relative(compiled(images).logits, plain(images).logits) < 1e-5


def test_a_compiled_model_learns_the_same(monkeypatch):
    monkeypatch.setattr(nn.Module, "compile", functools.partialmethod(nn.Module.compile, backend="aot_eager"))
    plain = two_stages().double().train()
    torch._dynamo.reset()
    compiled = Execution(compile=True).prepare(copy.deepcopy(plain))
    images = torch.randn(2, 3, 21, 38, dtype=torch.float64)
    for model in (compiled, plain):
        output = model(images)
        (output.logits.square().mean() + output.auxiliary_logits.square().mean()).backward()
    for (name, one), other in zip(compiled.named_parameters(), plain.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, rtol=1e-9, atol=1e-12), name


@pytest.mark.parametrize(("training", "backend"), [(False, "eager"), (True, "aot_eager")])
def test_three_compilations_of_a_part_serve_all_sizes(training, backend, monkeypatch):
    torch._dynamo.reset()
    counters = []

    def compiled(module, **options):
        counters.append(CompileCounterWithBackend(backend))
        return usual(module, backend=counters[-1])

    usual = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", compiled)
    plain = two_stages().double().train(training)
    model = Execution(compile=True).prepare(copy.deepcopy(plain))
    for size in [(48, 48), (48, 64), (64, 48), (37, 130), (128, 128), (50, 51), (200, 33)]:
        images = torch.randn(2, 3, *size, dtype=torch.float64)
        with torch.set_grad_enabled(training):
            results = [one(images) for one in (model, plain)]
        if training:
            for result in results:
                (result.logits.square().mean() + result.auxiliary_logits.square().mean()).backward()
        assert relative(results[0].logits, results[1].logits) < 1e-9
    assert [counter.frame_count for counter in counters] == ([3, 3, 3] if training else [3, 3, 0])
    for (name, one), other in zip(model.named_parameters(), plain.named_parameters(), strict=True):
        if training:
            assert torch.allclose(one.grad, other[1].grad, rtol=1e-8, atol=1e-11), name


@pytest.mark.parametrize("graphs", [False, True])
def test_cuda_graphs_are_asked_of_the_compiler(graphs, monkeypatch):
    modes = []
    monkeypatch.setattr(nn.Module, "compile", lambda module, mode: modes.append(mode))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    Execution(compile=True, cuda_graphs=graphs).prepare(two_stages())
    assert modes == ["reduce-overhead" if graphs else None] * 3


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_cuda_graphs_without_a_device_are_refused():
    with pytest.raises(ValueError, match="cuda_graphs must have a CUDA device"):
        Execution(compile=True, cuda_graphs=True).prepare(two_stages())


def test_a_compiled_encoder_gets_images_size_by_size():
    assert not Execution(compile=True).prepare(two_stages()).joins_sizes
    assert Execution().prepare(two_stages()).joins_sizes


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"execution\.numerics must be exact or fast, got 'rough'; take one of these"):
        Execution(numerics="rough")
    with pytest.raises(ValueError, match=r"execution\.cuda_graphs must come with execution\.compile, got it alone"):
        Execution(cuda_graphs=True)
