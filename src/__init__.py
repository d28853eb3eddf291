"""Swin + UPerNet dense prediction on PyTorch Lightning."""

__version__ = "0.1.0"
