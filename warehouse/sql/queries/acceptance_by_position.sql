-- One row per kept cell, source of acceptance and draft position (0 is the first draft token).
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
    acceptance_by_position.source,
    acceptance_by_position.position,
    acceptance_by_position.rate
from acceptance_by_position
semi join kept using (cell)
join cells using (cell)
order by acceptance_by_position.cell, acceptance_by_position.source, acceptance_by_position.position
