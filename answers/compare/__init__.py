"""How do two arms compare: every load, line by line, with how sure each difference is."""
