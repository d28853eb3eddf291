"""Swin + UPerNet dense prediction on PyTorch Lightning."""

__version__ = "0.2.0"
