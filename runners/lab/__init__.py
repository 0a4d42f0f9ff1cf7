"""The laptop lab: its corpus, its models and its environments. The training runs beside vLLM, not here."""
