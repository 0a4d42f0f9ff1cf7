"""Any number over any key: what a reader of the free charts asks, and the SQL that answers it."""
