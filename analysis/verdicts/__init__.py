"""From intervals to a decision, by setting, over all of them, among methods."""
