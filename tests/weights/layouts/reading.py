"""What the tests of the layouts share: peers with random weights, and their weights in models of ours."""

import functools

import torch

from src.models import FCNHead, Segmenter, UPerNetDecoder
from src.weights.layouts.recognise import kind_of, recognise
from tests.models.random_weights import randomise

SMALL = {"embed_dim": 24, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 3, 4)}


def random_weights(peer):
    """Fills parameters and running statistics, but not the tables of coordinates that some peers keep as buffers."""
    kept = {name: value.clone() for name, value in peer.named_buffers() if "running" not in name}
    randomise(peer)
    for name, value in peer.named_buffers():
        if name in kept:
            value.copy_(kept[name])
    return peer


def read(state):
    """The layout of a state dict, its tensors under our names and the names left over."""
    found = recognise(list(state))
    below = {name.removeprefix(found.prefix): value for name, value in state.items() if name.startswith(found.prefix)}
    return found, *found.layout.to_ours(below, found.root)


def encoder_with(state, encoder):
    """An encoder with the weights of a state; what the file has no output norms for stays as built."""
    own = {name.removeprefix("encoder."): value for name, value in state.items() if name.startswith("encoder.")}
    missing, unexpected = encoder.load_state_dict(own, strict=False)
    assert not unexpected
    assert all(name.startswith("norm") for name in missing), missing
    return encoder.eval()


@torch.no_grad()
def scores(state, encoder, images):
    """What an image classifier with the weights of a state gives ``(B, K)``."""
    encoder_with(state, encoder)
    last = encoder.get_submodule(f"norm{len(encoder.feature_specs) - 1}")
    last.load_state_dict({end: state[f"classifier.norm.{end}"] for end in ("weight", "bias")})
    pooled = encoder(images)[-1].mean((2, 3))
    return pooled @ state["classifier.head.weight"].t() + state["classifier.head.bias"]


def segmenter_with(state, encoder, num_classes, channels=32, auxiliary_channels=None):
    """A segmenter with the weights of a state, all of them; the norm of a classifier has no place in it."""
    auxiliary = functools.partial(FCNHead, channels=auxiliary_channels) if auxiliary_channels else None
    model = Segmenter(encoder, functools.partial(UPerNetDecoder, channels=channels), auxiliary, num_classes=num_classes)
    model.load_state_dict({name: value for name, value in state.items() if not name.startswith("classifier.")})
    return model.eval()


def assert_round_trip(state, found, ours, aside=()):
    """Their tensors come back bit for bit under the same names, but for those whose names end in one of ``aside``."""
    back, left_over = found.layout.to_theirs(ours, kind_of(ours))
    assert left_over == []
    expected = {name: value for name, value in state.items() if not name.endswith(tuple(aside))}
    assert back.keys() == expected.keys()
    for name, value in expected.items():
        assert back[name].dtype == value.dtype
        assert torch.equal(back[name], value), name


def assert_same(ours, theirs, tolerance=1e-5):
    assert ours.shape == theirs.shape
    assert theirs.std() > 0.1
    assert ((ours - theirs).abs().max() / theirs.abs().max()).item() < tolerance
