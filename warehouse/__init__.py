"""The core: the words, the contract of a record, the store and its SQL. Imports no other package."""

import os

# DuckDB keeps what it has freed, several times what its answers take; its allocator is told here,
# before it is loaded, that others need memory as well (``dashboard/app.py`` has the figures).
os.environ.setdefault("DUCKDB_JE_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0,narenas:1")
