"""What a size is, the same for images and maps."""

Size = tuple[int, int]
"""Height and width, in pixels of an image or in cells of a map."""
