"""Prompts from datasets, files and generators, the same sets for every arm; and the loads that need more."""
