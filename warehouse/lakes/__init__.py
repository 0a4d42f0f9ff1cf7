"""The warehouse's tables where other engines read them: as Iceberg, as DuckLake."""
