-- One row per cell that the filters keep, with its facts and where it came from.
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
    cells.* exclude (cell),
    sources.path,
    sources.format as source_format,
    sources.ingested_at
from cells
semi join kept using (cell)
join sources using (source_id)
order by sources.path, cells.cell
