"""A launch and its cells: load, samples, record, and what is still to run."""
