"""``python -m src.test``: score a checkpoint on a split, with a table of the classes."""

from src.cli import main

if __name__ == "__main__":
    main("test")
