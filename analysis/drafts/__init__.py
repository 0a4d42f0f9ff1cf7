"""Acceptance, and which number of draft tokens to serve with."""
