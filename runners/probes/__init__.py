"""Scripts that the Python of another environment runs; each reads one JSON line, prints one.

They import nothing of ours, and what they ask for by name only: no environment of ours holds it.
"""
