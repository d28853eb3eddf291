"""The learning rate as a function of the optimizer step."""


def warmup_poly(
    step: int, total_steps: int, warmup_steps: int, warmup_ratio: float = 1e-6, power: float = 1.0
) -> float:
    """Factor on the base learning rate: linear from ``warmup_ratio`` to 1, then polynomial to 0.

    Args:
        step: optimizer steps done so far, from 0.
        total_steps: optimizer steps of the whole run.
        warmup_steps: optimizer steps of the linear part.
        warmup_ratio: the factor at step 0, where there is a warm-up.
        power: exponent of the polynomial part; 1 is linear.

    Source: mmsegmentation's LinearLR followed by PolyLR; the official Swin repository multiplies the two instead,
    which differs by at most 1 % of the base rate with the published lengths.
    """
    if step < warmup_steps:
        return warmup_ratio + (1.0 - warmup_ratio) * step / warmup_steps
    remaining = (total_steps - step) / max(1, total_steps - warmup_steps)
    return max(0.0, min(1.0, remaining)) ** power
