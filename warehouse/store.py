"""The store: immutable Parquet files; a generation is a list of them, and CURRENT names one."""

from warehouse.store_files import warehouse_path
from warehouse.store_list import cells_held, current_generation
from warehouse.store_read import Reader
from warehouse.store_write import Writer, open_writer

__all__ = ["Reader", "Writer", "cells_held", "current_generation", "open_writer", "warehouse_path"]
