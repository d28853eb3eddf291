"""Pictures of made-up streets with exact masks, drawn by code: eight classes that share all their colours.

A class is known by its texture, its shape and its place, never by its colour: every thing takes two colours of one
small palette at random. Shapes: H, W the size of the picture; fields ``(H, W)`` float64 in 0..1; masks ``(H, W)`` bool.
"""

from dataclasses import dataclass

import numpy as np

from src.classes import ClassList

CLASSES = ClassList(
    names=("sky", "meadow", "brick", "shutter", "tiles", "bush", "ball", "fence"),
    palette=(
        (116, 185, 255),
        (85, 150, 70),
        (178, 82, 60),
        (120, 90, 170),
        (225, 195, 120),
        (30, 95, 60),
        (235, 90, 130),
        (60, 60, 70),
    ),
    ids=(1, 2, 3, 4, 5, 6, 7, 8),
)
"""The classes; 0 in the masks is everything else, unlabelled."""

SKY, MEADOW, BRICK, SHUTTER, TILES, BUSH, BALL, FENCE = CLASSES.ids

_DARK = np.array([(60, 80, 120), (120, 55, 60), (50, 100, 70), (95, 85, 50), (80, 60, 110)], float)
_LIGHT = np.array([(170, 200, 235), (235, 170, 160), (165, 215, 170), (230, 220, 160), (210, 185, 230)], float)


@dataclass
class Canvas:
    """A picture in the making; what is painted later lies in front.

    Args:
        pixels: ``(H, W, 3)`` float64 in 0..255.
        mask: ``(H, W)`` uint8, ids of the classes.
        rng: of all draws.
    """

    pixels: np.ndarray
    mask: np.ndarray
    rng: np.random.Generator

    @property
    def rows(self) -> np.ndarray:
        """Row numbers ``(H, 1)``."""
        return np.arange(self.mask.shape[0])[:, None]

    @property
    def columns(self) -> np.ndarray:
        """Column numbers ``(1, W)``."""
        return np.arange(self.mask.shape[1])[None]

    def paint(self, where: np.ndarray, field: np.ndarray, class_id: int) -> None:
        """Covers a region with a blend of a dark and a light colour.

        Args:
            where: the region ``(H, W)``.
            field: how far from dark to light, or from light to dark, ``(H, W)``.
            class_id: what the region is.
        """
        dark, light = self.rng.choice(_DARK), self.rng.choice(_LIGHT)
        field = np.broadcast_to(1 - field if self.rng.random() < 0.5 else field, self.mask.shape)
        self.pixels[where] = (dark + (light - dark) * field[..., None])[where]
        self.mask[where] = class_id


def draw_picture(seed: int, index: int) -> tuple[np.ndarray, np.ndarray]:
    """A picture ``(H, W, 3)`` uint8 and its mask ``(H, W)`` uint8, of a size of its own.

    Args:
        seed: of the whole set, 0 or more.
        index: of the picture, 0 or more.
    """
    rng = np.random.default_rng([seed, index])
    height, width = (int(side) for side in rng.integers(91, 171, 2))
    canvas = Canvas(np.zeros((height, width, 3)), np.zeros((height, width), np.uint8), rng)
    horizon = _draw_ground(canvas)
    for class_id in rng.permutation([BRICK, SHUTTER, rng.choice([BRICK, SHUTTER])]):
        _draw_building(canvas, horizon, int(class_id))
    _draw_plaza(canvas, horizon)
    for _ in range(rng.integers(1, 4)):
        _draw_bush(canvas, horizon)
    for _ in range(rng.integers(2, 5)):
        _draw_ball(canvas)
    if rng.random() < 0.5:
        _draw_sign(canvas)
    _draw_fence(canvas, horizon)
    noisy = canvas.pixels * rng.uniform(0.85, 1.1) + rng.normal(0, 5, canvas.pixels.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8), canvas.mask


def _draw_ground(canvas: Canvas) -> float:
    rng, (height, width) = canvas.rng, canvas.mask.shape
    horizon = height * rng.uniform(0.4, 0.6)
    waves = horizon + height * 0.04 * np.sin(canvas.columns / width * rng.uniform(4, 12) + rng.uniform(0, 6))
    above = canvas.rows < waves
    slope = (canvas.rows / height * rng.uniform(0.3, 0.8) + canvas.columns / width * rng.uniform(0, 0.4)).clip(0, 1)
    canvas.paint(above, slope, SKY)
    canvas.paint(~above, _blurred(rng.random((height, width)), 1), MEADOW)
    return horizon


def _draw_building(canvas: Canvas, horizon: float, class_id: int) -> None:
    rng, (height, width) = canvas.rng, canvas.mask.shape
    top, bottom = horizon - height * rng.uniform(0.1, 0.35), horizon + height * rng.uniform(0.05, 0.2)
    left, span = rng.uniform(-0.1, 0.8) * width, width * rng.uniform(0.2, 0.4)
    inside = (canvas.rows > top) & (canvas.rows < bottom) & (canvas.columns > left) & (canvas.columns < left + span)
    if class_id == SHUTTER:
        period = rng.integers(5, 8)
        canvas.paint(inside, (canvas.rows % period < period / 2).astype(float), SHUTTER)
        return
    row, long = rng.integers(5, 7), rng.integers(10, 14)
    shift = (canvas.rows // row) % 2 * (long // 2)
    joint = (canvas.rows % row == 0) | ((canvas.columns + shift) % long == 0)
    canvas.paint(inside, joint.astype(float), BRICK)


def _draw_plaza(canvas: Canvas, horizon: float) -> None:
    rng, (height, width) = canvas.rng, canvas.mask.shape
    top, middle = horizon + height * rng.uniform(0.08, 0.25), width * rng.uniform(0.2, 0.8)
    half = width * rng.uniform(0.12, 0.2) + (canvas.rows - top) * rng.uniform(0.2, 0.6)
    inside = (canvas.rows > top) & (abs(canvas.columns - middle) < half)
    side = rng.integers(4, 7)
    canvas.paint(inside, ((canvas.rows // side + canvas.columns // side) % 2).astype(float), TILES)


def _draw_bush(canvas: Canvas, horizon: float) -> None:
    rng, (height, width) = canvas.rng, canvas.mask.shape
    row, column = horizon + height * rng.uniform(-0.08, 0.3), width * rng.uniform(0, 1)
    size = min(height, width) * rng.uniform(0.1, 0.2)
    angle = np.arctan2(canvas.rows - row, canvas.columns - column)
    edge = size * (1 + 0.2 * np.sin(angle * rng.integers(5, 9) + rng.uniform(0, 6)))
    inside = np.hypot(canvas.rows - row, canvas.columns - column) < edge
    canvas.paint(inside, (_blurred(rng.random((height, width)), 3) > 0.5).astype(float), BUSH)


def _draw_ball(canvas: Canvas) -> None:
    rng, (height, width) = canvas.rng, canvas.mask.shape
    radius = min(height, width) * rng.uniform(0.08, 0.15)
    row, column = height * rng.uniform(0.1, 0.95), width * rng.uniform(0.05, 0.95)
    inside = np.hypot(canvas.rows - row, canvas.columns - column) < radius
    shine = np.hypot(canvas.rows - row + radius * 0.4, canvas.columns - column + radius * 0.4)
    canvas.paint(inside, (shine / (1.6 * radius)).clip(0, 1), BALL)


def _draw_sign(canvas: Canvas) -> None:
    rng, (height, width) = canvas.rng, canvas.mask.shape
    row, column, half = height * rng.uniform(0.2, 0.8), width * rng.uniform(0.1, 0.9), rng.integers(5, 10)
    inside = abs(canvas.rows - row) + abs(canvas.columns - column) < half
    canvas.paint(inside, np.full(canvas.mask.shape, rng.random()), 0)


def _draw_fence(canvas: Canvas, horizon: float) -> None:
    rng, (height, width) = canvas.rng, canvas.mask.shape
    top, tall = horizon + height * rng.uniform(-0.05, 0.2), height * rng.uniform(0.18, 0.28)
    left, span = width * rng.uniform(-0.1, 0.4), width * rng.uniform(0.5, 0.8)
    gap = rng.integers(10, 15)
    posts = (canvas.columns % gap < 3) & (canvas.rows > top)
    rails = (abs(canvas.rows - top - tall * 0.25) < 1.5) | (abs(canvas.rows - top - tall * 0.75) < 1.5)
    inside = (canvas.rows < top + tall) & (canvas.columns > left) & (canvas.columns < left + span)
    canvas.paint((posts | rails) & inside, np.full(canvas.mask.shape, rng.integers(2)), FENCE)


def _blurred(field: np.ndarray, radius: int) -> np.ndarray:
    """The mean over a square window, stretched back to 0..1."""
    size = 2 * radius + 1
    for axis in (0, 1):
        ends = [(0, 0), (0, 0)]
        ends[axis] = (radius, radius)
        wide = np.pad(field, ends, mode="reflect")
        field = np.mean(np.lib.stride_tricks.sliding_window_view(wide, size, axis=axis), axis=-1)
    return (field - field.min()) / (field.max() - field.min())
