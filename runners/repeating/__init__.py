"""Measuring a cell again from what its drop kept."""
