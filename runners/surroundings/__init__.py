"""The machine a run had: GPU, host, tools; and what of it may be written down."""
