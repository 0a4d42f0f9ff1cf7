-- One row per completed request in the measured window of the cells asked for: its kind of prompt (or its turn of
-- a session), what was drafted for it, how fast it was.
-- Parameters: $files, all with the column $by (category or turn), $cell_ids.
with asked as (
    select distinct unnest($cell_ids::varchar[]) as cell_id
)

select
    request.cell_id::varchar as cell_id,
    case $by when 'turn' then 'turn ' else '' end
        || columns(lambda name: name = $by)::varchar as category,
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
