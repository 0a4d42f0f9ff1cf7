"""Arranges what answers and the warehouse return; computes nothing."""
