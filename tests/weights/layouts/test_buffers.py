import pytest
import torch

from src.models.swin import SwinTransformer
from src.models.swin_v2 import SwinTransformerV2
from src.weights.layouts.buffers import buffers

SMALL = {"embed_dim": 8, "depths": (2, 2), "num_heads": (1, 2)}


def state_of(version=1, window=4, **options):
    encoder = (SwinTransformer, SwinTransformerV2)[version - 1](**SMALL, window_size=window, **options)
    return {f"encoder.{name}": value for name, value in encoder.state_dict().items()}


def naive_index(height, width):
    index = torch.empty(height * width, height * width, dtype=torch.long)
    for m in range(height * width):
        for n in range(height * width):
            down, right = m // width - n // width, m % width - n % width
            index[m, n] = (down + height - 1) * (2 * width - 1) + right + width - 1
    return index


@pytest.mark.parametrize("name", ["microsoft", "official", "mmseg"])
def test_an_index_for_every_block(name):
    windows = [(4, 4), (2, 2)]
    made = buffers(name, state_of(window=[4, 2]), windows, (64, 64))
    begin = {"mmseg": "stages.{}.blocks.{}.attn.w_msa", "torchvision": ""}.get(name, "layers.{}.blocks.{}.attn")
    for i, window in enumerate(windows):
        for j in range(2):
            index = made[f"{begin.format(i, j)}.relative_position_index"]
            assert index.dtype == torch.int64
            assert torch.equal(index, naive_index(*window))
    assert len([key for key in made if key.endswith("index")]) == 4


def test_torchvisions_index_is_in_one_row():
    made = buffers("torchvision", state_of(window=(4, 3)), [(4, 3)] * 2)
    assert list(made) == [f"features.{i}.{j}.attn.relative_position_index" for i in (1, 3) for j in (0, 1)]
    assert torch.equal(made["features.3.1.attn.relative_position_index"], naive_index(4, 3).flatten())


def naive_mask(map_size, window, shift):
    def region(place, extent):
        return 0 if place < extent - window else 1 if place < extent - shift else 2

    masks = []
    for top in range(0, map_size[0], window):
        for left in range(0, map_size[1], window):
            places = [(top + row, left + column) for row in range(window) for column in range(window)]
            regions = [(region(row, map_size[0]), region(column, map_size[1])) for row, column in places]
            masks.append([[0.0 if one == other else -100.0 for other in regions] for one in regions])
    return torch.tensor(masks)


@pytest.mark.parametrize("image_size", [(64, 64), (32, 96)])
@pytest.mark.parametrize("window", [4, 2, 1])
def test_microsofts_masks(image_size, window):
    made = buffers("microsoft", state_of(window=window), [(window, window)] * 2, image_size)
    masks = {name: value for name, value in made.items() if name.endswith("attn_mask")}
    expected = {}
    for stage in range(2):
        map_size = (image_size[0] // 4 // 2**stage, image_size[1] // 4 // 2**stage)
        if 1 < window < min(map_size):
            expected[f"layers.{stage}.blocks.1.attn_mask"] = naive_mask(map_size, window, window // 2)
    assert masks.keys() == expected.keys()
    assert len(expected) == (0 if window == 1 else 1 if (window, image_size) == (4, (32, 96)) else 2)
    for name, value in expected.items():
        assert masks[name].dtype == torch.float32
        assert torch.equal(masks[name], value)


def test_coordinates_equal_torchvisions():
    from torchvision.models.swin_transformer import ShiftedWindowAttentionV2

    made = buffers("torchvision", state_of(2, (4, 6)), [(4, 6)] * 2)
    expected = ShiftedWindowAttentionV2(8, [4, 6], [0, 0], 1).relative_coords_table
    torch.testing.assert_close(made["features.1.0.attn.relative_coords_table"], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("pretrained", [None, 3, 12])
def test_coordinates_equal_timms(pretrained):
    swin_v2 = pytest.importorskip("timm.models.swin_transformer_v2")
    own = None if pretrained is None else (pretrained, pretrained)
    made = buffers("microsoft", state_of(2), [(4, 4)] * 2, (64, 64), [own, None])
    for stage, size in ((0, pretrained or 0), (1, 0)):
        expected = swin_v2.WindowAttention(8, (4, 4), 1, pretrained_window_size=(size, size)).relative_coords_table
        got = made[f"layers.{stage}.blocks.0.attn.relative_coords_table"]
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_values_have_the_type_of_the_weights(dtype):
    state = {name: value.to(dtype) for name, value in state_of(2).items()}
    made = buffers("microsoft", state, [(4, 4)] * 2, (64, 64), [(6, 6)] * 2)
    for name, value in made.items():
        assert value.dtype == (torch.int64 if name.endswith("index") else dtype), name
    table = made["layers.0.blocks.0.attn.relative_coords_table"]
    exact = buffers("microsoft", state_of(2), [(4, 4)] * 2, (64, 64), [(6, 6)] * 2)
    assert torch.equal(table, exact["layers.0.blocks.0.attn.relative_coords_table"].to(dtype))


@pytest.mark.parametrize(("window", "image_size"), [(5, 100_000), (4, 8192)])
def test_masks_that_no_memory_holds_are_refused(window, image_size):
    with pytest.raises(
        ValueError, match=r"image_size must give masks of at most 67,108,864 values .*give a smaller one"
    ):
        buffers("microsoft", state_of(window=window), [(window, window)] * 2, (image_size, 4 * image_size))


def test_a_window_of_one_token_has_finite_coordinates():
    made = buffers("microsoft", state_of(2, 1), [(1, 1)] * 2, (32, 32))
    assert made["layers.0.blocks.0.attn.relative_coords_table"].tolist() == [[[[0.0, 0.0]]]]


@pytest.mark.parametrize("name", ["transformers", "timm", "toolkit"])
@pytest.mark.parametrize("version", [1, 2])
def test_libraries_that_keep_none(name, version):
    assert buffers(name, state_of(version), [(4, 4)] * 2) == {}


def test_no_two_share_their_memory():
    made = buffers("microsoft", state_of(2), [(4, 4)] * 2, (64, 64))
    assert len({value.untyped_storage().data_ptr() for value in made.values()}) == len(made)


def test_the_size_of_images_must_be_known():
    with pytest.raises(ValueError, match="image_size must be given for the layout microsoft, got None"):
        buffers("microsoft", state_of(), [(4, 4)] * 2)


@pytest.mark.parametrize("image_size", [(60, 64), (66, 66), (16, 16), (48, 48)])
def test_a_size_at_which_microsofts_model_cannot_be_built_is_told(image_size):
    with pytest.raises(ValueError, match=rf"image_size must .* got {image_size[0]}x{image_size[1]} pixels; (16|32) "):
        buffers("microsoft", state_of(), [(4, 4)] * 2, image_size)


@pytest.mark.parametrize("name", ["microsoft", "official", "mmseg"])
def test_windows_that_are_not_square_are_told(name):
    with pytest.raises(ValueError, match=f"windows must be square in the layout {name}"):
        buffers(name, state_of(window=(4, 2)), [(4, 2)] * 2, (64, 64))
