"""``python -m src fit|validate|test|predict``."""

from src.cli import main

if __name__ == "__main__":
    main()
