"""Building blocks in pure torch that know nothing of models."""
