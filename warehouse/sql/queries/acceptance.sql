-- One row per kept cell and source of acceptance.
-- Parameters: the filters ($model, $gpu, $engine_version, $dataset, $tensor_parallel_size, $arm, $study,
-- $since, $until).
with kept as (
    from chosen(
    $model::varchar[], $gpu::varchar[], $engine_version::varchar[], $dataset::varchar[],
    $tensor_parallel_size::varchar[], $arm::varchar[], $study::varchar[],
    $since::date, $until::date
)
)

select
    cells.cell_id,
    acceptance.source,
    acceptance.drafts,
    acceptance.draft_tokens,
    acceptance.accepted_tokens,
    acceptance.rate,
    acceptance.mean_length
from acceptance
semi join kept using (cell)
join cells using (cell)
order by acceptance.cell, acceptance.source
