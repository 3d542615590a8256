"""Maps over a picture: as a PNG sheet, in a terminal, on a page. Pillow is imported where it is needed."""
