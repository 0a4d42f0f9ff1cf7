"""Series over nights and releases: regressions and budgets."""
