"""A published result set: its dataset card, its metadata, and the page that shows it."""
