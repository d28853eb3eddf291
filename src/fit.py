"""``python -m src.fit``: train a model."""

from src.cli import main

if __name__ == "__main__":
    main("fit")
