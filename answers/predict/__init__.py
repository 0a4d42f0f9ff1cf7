"""What a K, load, acceptance or length that was not measured would give, and how sure that is."""
