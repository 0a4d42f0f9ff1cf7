-- One row per kept cell and source of acceptance.
-- Parameters: $filters.
select
    cells.cell_id,
    acceptance.source,
    acceptance.drafts,
    acceptance.draft_tokens,
    acceptance.accepted_tokens,
    acceptance.rate,
    acceptance.mean_length
from acceptance
semi join kept_by($filters) using (cell)
join cells using (cell)
order by acceptance.cell, acceptance.source
