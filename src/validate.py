"""``python -m src.validate``: score a checkpoint on the validation split."""

from src.cli import main

if __name__ == "__main__":
    main("validate")
