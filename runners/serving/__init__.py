"""The server of a launch: its process, its guard, its health and why it died."""
