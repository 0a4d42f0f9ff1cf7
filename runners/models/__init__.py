"""A model from its own files: size, memory, vocabulary."""
