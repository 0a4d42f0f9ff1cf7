"""What a search would measure, what it decides and what it costs."""
