"""What speaks against a number: a cell's own caveats, a pair's, a run's."""
