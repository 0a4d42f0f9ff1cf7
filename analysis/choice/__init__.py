"""Which arm and which K to take at each load, by expected loss."""
