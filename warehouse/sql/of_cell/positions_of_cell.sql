-- One row per source of acceptance and draft position (0 is the first draft token) of one cell.
-- Parameters: $cell_id.
select acceptance_by_position.source, acceptance_by_position.position, acceptance_by_position.rate
from acceptance_by_position
join cells using (cell)
where cells.cell_id = $cell_id
order by acceptance_by_position.source, acceptance_by_position.position
