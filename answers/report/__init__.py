"""The report for stakeholders: what every page says of one subject, in the order of their questions."""
