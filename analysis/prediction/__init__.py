"""What was not measured: the step-time model and the textbook ones."""
