-- One row per cell that the filters keep, with its facts and where it came from.
-- Parameters: $filters.
select
    cells.* exclude (cell),
    sources.path,
    sources.format as source_format,
    sources.ingested_at
from cells
semi join kept_by($filters) using (cell)
join sources using (source_id)
order by sources.path, cells.cell
