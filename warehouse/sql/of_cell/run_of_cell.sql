-- The source and run of one cell; no row where there is no such cell.
-- Parameters: $cell_id.
select source_id, run_id
from cells
where cell_id = $cell_id
