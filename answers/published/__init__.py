"""Published figures beside what was measured here."""
