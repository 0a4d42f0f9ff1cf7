-- What was stated of where the given cells come from, each sentence once.
-- Parameters: $cell_ids.
with asked as (
    select distinct unnest($cell_ids::varchar[]) as cell_id
)

select distinct sources.provenance
from cells
semi join asked using (cell_id)
join sources using (source_id)
where sources.provenance is not null
order by sources.provenance
