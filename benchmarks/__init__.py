"""What this software costs in time and memory: ratios, printed by ``make bench``, never a test."""
