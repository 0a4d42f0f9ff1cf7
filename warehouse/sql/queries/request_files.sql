-- One row per cell asked for that has request records: the file they are in.
-- Parameters: $cell_ids.
with asked as (
    select distinct unnest($cell_ids::varchar[]) as cell_id
)

select cells.cell_id, cell_requests.file, cell_requests.rows
from cell_requests
join cells using (cell)
semi join asked using (cell_id)
order by cell_requests.file, cells.cell
