"""Which launch to measure next, when to stop, and what was proven: the decision by the fewest minutes."""
