"""How sure a difference is: launches as the unit of repetition, intervals, five words."""
