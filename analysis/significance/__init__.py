"""How sure a difference is: intervals, noise, crossover, outputs."""
