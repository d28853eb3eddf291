import pytest
import torch

from src.layers.position_bias import TableBias
from src.layers.window_attention import WindowAttention
from src.models.swin_block import Mlp, PatchEmbed, PatchMerging, SwinBlock


def build(**options):
    return SwinBlock(6, WindowAttention(6, 2, (4, 4), TableBias((4, 4), 2)), **options)


def test_a_block_adds_attention_then_mlp():
    block = build().eval()
    x = torch.randn(2, 5, 7, 6)
    middle = x + block.attn(block.norm1(x))
    assert torch.allclose(block(x), middle + block.mlp(block.norm2(middle)))


def test_the_norms_may_stand_after_attention_and_mlp():
    block = build(norm_after=True).eval()
    x = torch.randn(2, 5, 7, 6)
    assert torch.equal(block(x), x)
    torch.nn.init.normal_(block.norm1.weight)
    torch.nn.init.normal_(block.norm2.weight)
    middle = x + block.norm1(block.attn(x))
    assert torch.allclose(block(x), middle + block.norm2(block.mlp(middle)))
    assert not torch.allclose(block(x), build().eval()(x))


def test_drop_path_skips_both_branches_of_an_image_or_scales_them():
    torch.manual_seed(0)
    block = build(drop_path_rate=1.0)
    x = torch.randn(2, 5, 7, 6)
    assert torch.equal(block.train()(x), x)
    assert not torch.allclose(block.eval()(x), x)


def test_mlp_options():
    assert Mlp(6, 15).fc1.weight.shape == (15, 6)
    assert build(mlp_ratio=2.5).mlp.fc1.out_features == 15
    mlp = build(drop_rate=0.5).mlp.train()
    x = torch.randn(3, 6)
    assert not torch.equal(mlp(x), mlp(x))


def test_patches_are_cut_after_padding_with_zeros():
    embed = PatchEmbed(2, 8, 4)
    images = torch.randn(1, 2, 5, 11)
    padded = torch.zeros(1, 2, 8, 12)
    padded[..., :5, :11] = images
    assert embed(images).shape == (1, 2, 3, 8)
    assert torch.equal(embed(images), embed(padded))


def test_a_hook_on_the_embedding_of_patches_is_called():
    embed, images = PatchEmbed(2, 8, 4), torch.randn(1, 2, 13, 9)
    expected, seen = embed(images), []
    embed.proj.register_forward_hook(lambda _, __, output: seen.append(output.shape))
    assert torch.allclose(embed(images), expected, atol=1e-6)
    assert seen == [(1, 8, 4, 3)]


def test_merging_concatenates_column_by_column():
    merging = PatchMerging(1)
    merging.norm = torch.nn.Identity()
    with torch.no_grad():
        merging.reduction.weight.copy_(torch.eye(4)[:2])
        first = merging(torch.tensor([[1.0, 2.0], [3.0, 4.0]]).view(1, 2, 2, 1))
        merging.reduction.weight.copy_(torch.eye(4)[2:])
        last = merging(torch.tensor([[1.0, 2.0], [3.0, 4.0]]).view(1, 2, 2, 1))
    assert [*first.flatten().tolist(), *last.flatten().tolist()] == [1, 3, 2, 4]


def test_odd_maps_are_padded_with_zeros_before_merging():
    merging = PatchMerging(6)
    x = torch.randn(1, 3, 5, 6)
    padded = torch.zeros(1, 4, 6, 6)
    padded[:, :3, :5] = x
    assert merging(x).shape == (1, 2, 3, 12)
    assert torch.equal(merging(x), merging(padded))


def test_merging_does_not_see_what_is_beyond_an_image():
    merging = PatchMerging(6)
    x = torch.randn(2, 4, 6, 6)
    joint = merging(x, [(3, 5), (4, 6)])
    assert torch.allclose(joint[:1, :2, :3], merging(x[:1, :3, :5]))


def test_the_norm_may_stand_after_the_reduction():
    merging = PatchMerging(6, norm_after=True)
    x = torch.randn(1, 4, 6, 6)
    assert merging.norm.normalized_shape == (12,)
    plain = PatchMerging(6)
    plain.norm = torch.nn.Identity()
    plain.load_state_dict({"reduction.weight": merging.reduction.weight})
    assert torch.allclose(merging(x), merging.norm(plain(x)))
    joint = merging(x.expand(2, -1, -1, -1), [(3, 5), (4, 6)])
    assert torch.allclose(joint[:1, :2, :3], merging(x[:, :3, :5]), atol=1e-6)


@pytest.mark.parametrize("norm_after", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 35, 1000])
@torch.no_grad()
def test_without_gradients_the_mlp_goes_in_pieces_and_leaves_its_input_alone(monkeypatch, norm_after, rows):
    block = build(norm_after=norm_after).eval()
    torch.nn.init.normal_(block.norm2.weight)
    x = torch.randn(2, 7, 5, 6).transpose(1, 2)
    given = x.clone()
    with torch.enable_grad():
        expected = block(x)
    monkeypatch.setattr("src.models.swin_block._CPU_PIECE", rows * 24 * 4)
    sizes = []
    block.mlp.register_forward_hook(lambda module, args, out: sizes.append(len(args[0])))
    assert torch.allclose(block(x), expected, atol=1e-6)
    assert torch.equal(x, given)
    assert max(sizes) == min(rows, 70)
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == 70
