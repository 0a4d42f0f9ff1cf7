"""Foreign files in, typed rows out: reads, checks, rejects with a reason."""
