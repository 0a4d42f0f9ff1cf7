"""The store: truth in Parquet request files, serving from small DuckDB generations."""

from warehouse.store_files import current_generation, warehouse_path
from warehouse.store_read import Reader
from warehouse.store_write import Writer, open_writer

__all__ = ["Reader", "Writer", "current_generation", "open_writer", "warehouse_path"]
