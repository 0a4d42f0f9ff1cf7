-- One row per flag of the given cells.
-- Parameters: $cell_ids.
with asked as (
    select distinct unnest($cell_ids::varchar[]) as cell_id
)

select cells.cell_id, flags.name, flags.severity, flags.sentence
from flags
join cells using (cell)
semi join asked using (cell_id)
order by flags.cell, flags.severity, flags.name
