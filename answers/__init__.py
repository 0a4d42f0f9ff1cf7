"""What is said to a person, once: one package for each question."""
