"""Questions that come through other doors than the pages: as named words, answered as plain JSON."""
