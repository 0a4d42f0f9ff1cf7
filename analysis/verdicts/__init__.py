"""One published figure judged: whether it follows from its own row."""
