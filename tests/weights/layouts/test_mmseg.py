import pytest
import torch
import torch.nn.functional as F
from torch import nn

from src.models.swin import SwinTransformer
from src.models.swin_block import PatchMerging
from src.weights.layouts.buffers import buffers
from src.weights.layouts.mmseg import MMSEG
from src.weights.layouts.recognise import kind_of, layout_named, recognise
from src.weights.layouts.reordering import UNFOLDED
from tests.models.random_weights import randomise
from tests.weights.layouts.reading import assert_round_trip, assert_same, encoder_with, read

WINDOW = 4


class Attention(nn.Module):
    """Attention in whole windows without a shift, pair by pair."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * WINDOW - 1) ** 2, num_heads))
        self.register_buffer("relative_position_index", torch.zeros(WINDOW**2, WINDOW**2, dtype=torch.long))
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, tokens):
        q, k, v = self.qkv(tokens).chunk(3, -1)  # (N, C) each
        heads = []
        for h, (qh, kh, vh) in enumerate(zip(*(part.chunk(self.num_heads, -1) for part in (q, k, v)), strict=True)):
            logits = qh @ kh.t() / qh.shape[1] ** 0.5
            for m in range(WINDOW**2):
                for n in range(WINDOW**2):
                    down, right = m // WINDOW - n // WINDOW, m % WINDOW - n % WINDOW
                    row = (down + WINDOW - 1) * (2 * WINDOW - 1) + right + WINDOW - 1
                    logits[m, n] += self.relative_position_bias_table[row, h]
            heads.append(logits.softmax(-1) @ vh)
        return self.proj(torch.cat(heads, -1))


class Block(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.ModuleDict({"w_msa": Attention(dim, num_heads)})
        self.norm2 = nn.LayerNorm(dim)
        inner = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU())
        self.ffn = nn.ModuleDict({"layers": nn.Sequential(inner, nn.Linear(4 * dim, dim))})

    def forward(self, x):
        normed, attended = self.norm1(x), torch.zeros_like(x)
        for row in range(0, x.shape[1], WINDOW):
            for column in range(0, x.shape[2], WINDOW):
                place = (0, slice(row, row + WINDOW), slice(column, column + WINDOW))
                tokens = normed[place].reshape(WINDOW**2, -1)
                attended[place] = self.attn["w_msa"](tokens).view(WINDOW, WINDOW, -1)
        x = x + attended
        return x + self.ffn["layers"](self.norm2(x))


class UnfoldedMerge(nn.Module):
    """The merge as mmseg makes it: ``nn.Unfold``, then norm and reduction."""

    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        height, width = x.shape[1:3]
        x = F.unfold(x.permute(0, 3, 1, 2), 2, stride=2).transpose(1, 2)  # (B, H / 2 * W / 2, 4 C), channel by channel
        return self.reduction(self.norm(x)).view(len(x), height // 2, width // 2, -1)


class Mmseg(nn.Module):
    """An encoder with mmseg's names, written out for images that whole windows cover."""

    def __init__(self, dim=8, num_heads=(1, 2, 2)):
        super().__init__()
        self.patch_embed = nn.ModuleDict({"projection": nn.Conv2d(3, dim, 4, 4), "norm": nn.LayerNorm(dim)})
        self.stages = nn.ModuleList()
        for i, heads in enumerate(num_heads):
            width = dim * 2**i
            stage = nn.ModuleDict({"blocks": nn.ModuleList([Block(width, heads)])})
            if i + 1 < len(num_heads):
                stage["downsample"] = UnfoldedMerge(width)
            self.stages.append(stage)
            self.add_module(f"norm{i}", nn.LayerNorm(width))

    def forward(self, images):
        x = self.patch_embed["norm"](self.patch_embed["projection"](images).permute(0, 2, 3, 1))
        features = []
        for i, stage in enumerate(self.stages):
            for block in stage["blocks"]:
                x = block(x)
            features.append(self.get_submodule(f"norm{i}")(x).permute(0, 3, 1, 2))
            x = stage["downsample"](x) if "downsample" in stage else x
        return features


def ours():
    return SwinTransformer(8, (1, 1, 1), (1, 2, 2), window_size=WINDOW)


@torch.no_grad()
def test_features_equal_those_of_unfolded_merges():
    theirs = randomise(Mmseg())
    found, state, left_over = read(theirs.state_dict())
    assert (found.layout.name, found.place, kind_of(state), left_over) == ("mmseg", "", "encoder", [])
    images = torch.randn(1, 3, 64, 64)
    for level, expected in zip(encoder_with(state, ours())(images), theirs(images), strict=True):
        assert_same(level, expected)


@torch.no_grad()
def test_features_are_wrong_without_the_change_of_order():
    theirs = randomise(Mmseg())
    _, state, _ = read(theirs.state_dict())
    for name in state:
        if "downsample" in name:
            state[name] = theirs.state_dict()[name.replace("encoder.layers", "stages")]
    images = torch.randn(1, 3, 64, 64)
    level, expected = encoder_with(state, ours())(images)[1], theirs(images)[1]
    assert (level - expected).abs().max() / expected.abs().max() > 0.1


@torch.no_grad()
def test_mmseg_loads_what_is_written():
    encoder = randomise(ours())
    state = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    written, left_over = layout_named("mmseg", "encoder", 1).to_theirs(state, "encoder")
    assert left_over == []
    theirs = Mmseg().eval()
    theirs.load_state_dict(written | buffers("mmseg", state, [(WINDOW, WINDOW)] * 3), strict=True)
    images = torch.randn(1, 3, 64, 64)
    for level, expected in zip(encoder(images), theirs(images), strict=True):
        assert_same(level, expected)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_four_pixels_of_a_merge(channels):
    grid = torch.tensor([[1.0, 3.0], [2.0, 4.0]])  # 1 top left, 2 bottom left, 3 top right, 4 bottom right
    maps = torch.stack([grid + 10 * channel for channel in range(channels)], -1)[None]  # (1, 2, 2, C)
    merge = PatchMerging(channels)
    merge.norm, merge.reduction = nn.Identity(), nn.Identity()
    columns = merge(maps)[0, 0, 0]
    assert columns[::channels].tolist() == [1, 2, 3, 4]
    unfolded = F.unfold(maps.permute(0, 3, 1, 2), 2)[0, :, 0]
    assert unfolded[:4].tolist() == [1, 3, 2, 4]
    for theirs in (torch.eye(4 * channels), torch.randn(2 * channels, 4 * channels)):
        (converted,) = UNFOLDED.to_ours([theirs])
        torch.testing.assert_close(converted @ columns, theirs @ unfolded)
    assert (torch.eye(4 * channels) @ columns - unfolded).abs().max() > 0  # without the change it is another vector


@pytest.mark.parametrize("shape", [(8,), (2, 8), (6, 12)])
def test_the_change_of_order_comes_back(shape):
    tensor = torch.randn(shape)
    (there,) = UNFOLDED.to_ours([tensor])
    assert not torch.equal(there, tensor)
    assert torch.equal(UNFOLDED.to_theirs([there])[0], tensor)
    (back,) = UNFOLDED.to_theirs([tensor])
    assert torch.equal(UNFOLDED.to_ours([back])[0], tensor)


def segmentor():
    state = {f"backbone.{name}": value for name, value in randomise(Mmseg()).state_dict().items()}
    conv = {"conv.weight": 4, "bn.weight": 1, "bn.bias": 1, "bn.running_mean": 1, "bn.num_batches_tracked": 0}
    blocks = ["psp_modules.0.1", "psp_modules.3.1", "bottleneck", "lateral_convs.2", "fpn_convs.0", "fpn_bottleneck"]
    names = [f"decode_head.{block}" for block in blocks] + ["auxiliary_head.convs.0"]
    for name in names:
        state |= {f"{name}.{end}": torch.randn([2] * dimensions) for end, dimensions in conv.items()}
    for head in ("decode_head", "auxiliary_head"):
        state |= {f"{head}.conv_seg.weight": torch.randn(5, 2, 1, 1), f"{head}.conv_seg.bias": torch.randn(5)}
    return state


@pytest.mark.parametrize("prefix", ["", "module.", "model.net."])
def test_a_segmentor_comes_back_as_it_was(prefix):
    state = segmentor()
    found, ours, left_over = read({prefix + name: value for name, value in state.items()})
    assert (found.layout.name, found.prefix, found.root, left_over) == ("mmseg", prefix, "backbone.", [])
    assert kind_of(ours) == "segmentor"
    assert ours["decoder.psp_modules.3.1.bn.running_mean"] is state["decode_head.psp_modules.3.1.bn.running_mean"]
    assert ours["auxiliary.convs.0.conv.weight"] is state["auxiliary_head.convs.0.conv.weight"]
    assert_round_trip(state, found, ours, ("relative_position_index",))


@pytest.mark.parametrize("root", ["", "backbone."])
def test_files_converted_from_imagenet_carry_a_norm_and_masks(root):
    state = {root + name: value for name, value in Mmseg().state_dict().items() if not name.startswith("norm")}
    state |= {f"{root}norm.weight": torch.randn(32), f"{root}norm.bias": torch.randn(32)}
    state[f"{root}stages.0.blocks.1.attn_mask"] = torch.zeros(4, 16, 16)
    found, ours, left_over = read(state)
    assert (found.place, left_over, kind_of(ours)) == (root, [], "encoder")
    assert ours["classifier.norm.weight"] is state[f"{root}norm.weight"]
    assert not any("mask" in name for name in ours)


def test_an_absolute_embedding_is_a_row_of_tokens():
    state = Mmseg().state_dict() | {"absolute_pos_embed": torch.randn(1, 25, 8)}
    found, ours, _ = read(state)
    embed = ours["encoder.absolute_pos_embed"]
    assert embed.shape == (1, 8, 1, 25)
    assert torch.equal(embed[0, :, 0, 13], state["absolute_pos_embed"][0, 13])
    assert_round_trip(state, found, ours, ("relative_position_index",))


@pytest.mark.parametrize("shape", [(2, 25, 8), (25, 8), (25,), (2, 8, 5, 5), (1, 1, 25, 8, 1)])
def test_an_absolute_embedding_of_another_shape_is_told(shape):
    with pytest.raises(ValueError, match=r"absolute_pos_embed must be \(1, tokens, channels\) or .*, got"):
        MMSEG.to_ours({"absolute_pos_embed": torch.zeros(shape)}, "")


def test_a_merge_of_the_wrong_width_is_told():
    with pytest.raises(ValueError, match=r"stages.0.downsample.norm.weight must have four times .* got \(30,\)"):
        MMSEG.to_ours({"stages.0.downsample.norm.weight": torch.zeros(30)}, "")


def test_version_2_of_openmmlab_is_not_read_in_the_wrong_order():
    names = [*Mmseg().state_dict(), "stages.0.blocks.0.attn.w_msa.logit_scale"]
    with pytest.raises(ValueError, match="known layout"):
        recognise(names)
