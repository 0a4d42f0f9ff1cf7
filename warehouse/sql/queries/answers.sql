-- One row per request of the cells asked for: how it ended, and how long its answer is.
-- Parameters: $files, $cell_ids.
with asked as (
    select distinct unnest($cell_ids::varchar[]) as cell_id
)

select
    request.cell_id::varchar as cell_id,
    request."index",
    request.status::varchar as status,
    request.start,
    request.output_tokens,
    request.prompt_hash
from read_parquet($files::varchar[]) as request
semi join asked on request.cell_id = asked.cell_id
