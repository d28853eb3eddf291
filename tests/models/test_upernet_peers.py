"""The whole model against transformers' UPerNet-Swin, from the same random weights: outputs and training."""

import functools

import pytest
import torch

from src.inference import label_map, resize_logits
from src.losses import CrossEntropy
from src.models import swin_upernet
from src.models.fcn_head import FCNHead
from src.models.segmenter import Segmenter
from src.models.swin import SwinTransformer
from src.models.upernet import UPerNetDecoder
from src.optim.parameter_groups import parameter_groups
from tests.models import peer_names
from tests.models.random_weights import randomise

transformers = pytest.importorskip("transformers")

CLASSES = 11


def small(window_size=7):
    torch.manual_seed(0)
    encoder = SwinTransformer(24, (2, 2, 2, 2), (1, 2, 3, 4), window_size=window_size, drop_path_rate=0.0)
    decoder = functools.partial(UPerNetDecoder, channels=32, dropout=0.0)
    return Segmenter(encoder, decoder, functools.partial(FCNHead, channels=16, dropout=0.0), num_classes=CLASSES)


def peer_of(model):
    encoder, head = model.encoder, model.auxiliary.convs[0].conv
    swin = transformers.SwinConfig(
        embed_dim=encoder.feature_specs[0].channels,
        depths=[len(stage.blocks) for stage in encoder.layers],
        num_heads=[stage.blocks[0].attn.num_heads for stage in encoder.layers],
        window_size=encoder.layers[0].blocks[0].attn.window[0],
        drop_path_rate=0.0,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = transformers.UperNetConfig(
        backbone_config=swin,
        hidden_size=model.decoder.bottleneck.conv.out_channels,
        auxiliary_in_channels=head.in_channels,
        auxiliary_channels=head.out_channels,
        auxiliary_loss_weight=0.4,
        loss_ignore_index=255,
        num_labels=model.num_classes,
    )
    peer = transformers.UperNetForSemanticSegmentation(config).to(head.weight.dtype)
    peer_names.load(peer, peer_names.transformers_upernet(model.state_dict()), r"^backbone\.swin\.layernorm")
    return peer.train(model.training)


def assert_same(ours, theirs, tolerance):
    assert ours.shape == theirs.shape
    assert theirs.std() > 0.1
    assert ((ours - theirs).abs().max() / theirs.abs().max()).item() < tolerance


@pytest.mark.parametrize("size", [(224, 224), (97, 131), (37, 53), (33, 250), (8, 8)])
@pytest.mark.parametrize("window_size", [7, 12])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@torch.no_grad()
def test_logits_equal_transformers(size, window_size, dtype, tolerance):
    model = randomise(small(window_size)).to(dtype)
    images = torch.randn(2, 3, *size, dtype=dtype)
    assert_same(resize_logits(model(images).logits, size), peer_of(model)(images).logits, tolerance)


@pytest.mark.parametrize("size", [(512, 512), (500, 333)])
@torch.no_grad()
def test_logits_and_labels_of_the_tiny_model_equal_transformers(size):
    model = randomise(swin_upernet("tiny", 150))
    images = torch.randn(1, 3, *size)
    logits = model(images).logits
    expected = peer_of(model)(images).logits
    assert_same(resize_logits(logits, size), expected, 1e-5)
    assert (label_map(logits, size) == expected.argmax(1)).float().mean() > 0.9999


def optimizers(model, peer, lr):
    def exempt(name):
        return name.startswith("backbone.") and ("norm" in name or "relative_position_bias_table" in name)

    groups = [
        {"params": [p for name, p in peer.named_parameters() if exempt(name) == free], "weight_decay": decay}
        for free, decay in ((False, 0.01), (True, 0.0))
    ]
    ours = parameter_groups(model, 0.01)
    return [torch.optim.AdamW(each, lr=lr, betas=(0.9, 0.999)) for each in (ours, groups)]


def random_batch(seed):
    generator = torch.Generator().manual_seed(seed)
    masks = torch.randint(0, CLASSES, (2, 12, 12), generator=generator)
    masks[torch.rand(masks.shape, generator=generator) < 0.2] = 255
    masks = masks.repeat_interleave(8, 1).repeat_interleave(8, 2)
    return torch.randn(2, 3, 96, 96, generator=generator), masks


# Single precision drifts from itself: AdamW makes full steps of rounding errors in gradients that are almost zero, and
# another number of threads moves a loss by 3e-4. So only double precision can tell.
@pytest.mark.parametrize(("dtype", "lr", "tolerance"), [(torch.float32, 6e-5, 1e-3), (torch.float64, 6e-4, 1e-10)])
def test_twenty_training_steps_have_transformers_losses(dtype, lr, tolerance):
    model = small().train().to(dtype)
    peer = peer_of(model)
    criterion = CrossEntropy(ignore_index=255)
    optimizer, peer_optimizer = optimizers(model, peer, lr)
    losses, peer_losses = [], []
    for step in range(20):
        images, masks = random_batch(step % 4)
        images = images.to(dtype)
        output = model(images)
        loss = criterion(output.logits, masks) + 0.4 * criterion(output.auxiliary_logits, masks)
        peer_loss = peer(images, labels=masks).loss
        for each_loss, each_optimizer in ((loss, optimizer), (peer_loss, peer_optimizer)):
            each_optimizer.zero_grad()
            each_loss.backward()
            each_optimizer.step()
        losses.append(loss.item())
        peer_losses.append(peer_loss.item())
    assert losses == pytest.approx(peer_losses, rel=tolerance)
    assert losses[-1] < losses[0] - 0.01


@pytest.mark.parametrize(("size", "batch"), [((32, 32), 2), ((36, 60), 2), ((8, 8), 1)])
def test_a_training_step_on_images_smaller_than_a_window_is_finite(size, batch):
    model = small().train()
    output = model(torch.randn(batch, 3, *size))
    masks = torch.randint(0, CLASSES, (batch, *size))
    (CrossEntropy()(output.logits, masks) + 0.4 * CrossEntropy()(output.auxiliary_logits, masks)).backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@torch.no_grad()
def test_one_model_on_changing_sizes_equals_fresh_models():
    model = randomise(small())
    square, wide = torch.randn(1, 3, 64, 64), torch.randn(1, 3, 96, 80)
    outputs = [model(images).logits for images in (square, wide, square)]
    assert torch.equal(outputs[0], outputs[2])
    for output, images in zip(outputs, (square, wide, square), strict=True):
        assert_same(output, randomise(small())(images).logits, 1e-6)


@pytest.mark.parametrize("name", ["tiny", "small", "base", "large"])
@torch.no_grad()
def test_every_published_size_and_another_width_build_without_channel_lists(name):
    with torch.device("meta"):
        model = swin_upernet(name, 5).eval()
        assert model(torch.empty(1, 3, 64, 64)).logits.shape == (1, 5, 16, 16)


@torch.no_grad()
def test_another_width_builds_without_channel_lists():
    model = swin_upernet("tiny", 5, embed_dim=48, depths=(1, 1, 1, 1)).eval()
    assert model(torch.randn(1, 3, 64, 64)).logits.shape == (1, 5, 16, 16)
    assert model.feature_specs[0].channels == 48
