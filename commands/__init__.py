"""The terminal's view of what the warehouse holds and analysis answers: one file a command."""
