"""Arranges what analysis and the warehouse return; computes nothing."""
