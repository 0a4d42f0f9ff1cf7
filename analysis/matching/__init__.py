"""Which cells may be compared, and how two of them differ."""
