-- As kinds.sql, of the requests of sessions, by turn instead of by kind of prompt.
-- Parameters: $files, $cell_ids.
with asked as (
    select distinct unnest($cell_ids::varchar[]) as cell_id
)

select
    request.cell_id::varchar as cell_id,
    'turn ' || request.turn as category,
    request.prompt_hash,
    request.output_tokens,
    request.drafts,
    request.draft_tokens,
    request.accepted_tokens,
    request.ttft,
    request.itl,
    request.tpot
from read_parquet($files::varchar[]) as request
semi join asked on request.cell_id = asked.cell_id
where request.status = 'completed' and request.in_window
