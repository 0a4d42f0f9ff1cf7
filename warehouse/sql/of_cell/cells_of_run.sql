-- One row per cell of one run of one source that the filters keep, in the order of the report.
-- Parameters: $source_id, $run_id, $filters.
select cells.* exclude (cell)
from cells
semi join kept_by($filters) using (cell)
where source_id = $source_id and run_id = $run_id
order by cells.cell
