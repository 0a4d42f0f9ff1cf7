-- One row per kept cell, source of acceptance and draft position (0 is the first draft token).
-- Parameters: $filters.
select
    cells.cell_id,
    acceptance_by_position.source,
    acceptance_by_position.position,
    acceptance_by_position.rate
from acceptance_by_position
semi join kept_by($filters) using (cell)
join cells using (cell)
order by acceptance_by_position.cell, acceptance_by_position.source, acceptance_by_position.position
