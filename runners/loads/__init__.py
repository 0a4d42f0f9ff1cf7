"""Loads that are not requests at once: traces that are replayed, rates that a sweep finds."""
