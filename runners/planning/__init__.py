"""What is to be measured: the study file, its cells and launches, their cost."""
