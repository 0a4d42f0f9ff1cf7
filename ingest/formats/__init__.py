"""One adapter per report format; adding a format is adding a file."""
