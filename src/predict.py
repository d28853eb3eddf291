"""``python -m src.predict``: write the label maps of images."""

from src.cli import main

if __name__ == "__main__":
    main("predict")
