"""Swin + UPerNet dense prediction on PyTorch Lightning."""

__version__ = "0.4.0"
