-- One row per cell of one run of one source that the filters keep, in the order of the report.
-- Parameters: $source_id, $run_id and the filters ($model, $gpu, $engine_version, $dataset,
-- $tensor_parallel_size, $arm, $study, $since, $until).
with kept as (
    from chosen(
    $model::varchar[], $gpu::varchar[], $engine_version::varchar[], $dataset::varchar[],
    $tensor_parallel_size::varchar[], $arm::varchar[], $study::varchar[],
    $since::date, $until::date
)
)

select cells.* exclude (cell)
from cells
semi join kept using (cell)
where source_id = $source_id and run_id = $run_id
order by cells.cell
