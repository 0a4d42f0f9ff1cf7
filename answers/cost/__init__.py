"""What a decision is worth in money, at its operating load."""
