"""This machine, where results and models lie on it, and what of it may be written down."""
