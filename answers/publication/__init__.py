"""A published result set: what it claims, and whether that follows from its own requests."""
