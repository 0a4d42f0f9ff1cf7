"""Costs, savings, break-even, energy."""
