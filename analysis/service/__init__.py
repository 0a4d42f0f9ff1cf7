"""What a load may cost its users: SLOs, goodput, the Pareto front."""
