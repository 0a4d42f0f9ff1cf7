-- One row per kept cell, metric and statistic: canonical where there is one, else reported.
-- Parameters: the filters ($model, $gpu, $engine_version, $dataset, $tensor_parallel_size, $arm, $study,
-- $since, $until), $metrics, $statistics.
with kept as (
    from chosen(
    $model::varchar[], $gpu::varchar[], $engine_version::varchar[], $dataset::varchar[],
    $tensor_parallel_size::varchar[], $arm::varchar[], $study::varchar[],
    $since::date, $until::date
)
)

select
    cells.cell_id,
    measurements.origin,
    measurements.metric,
    measurements.statistic,
    measurements.value
from measurements
semi join kept using (cell)
join cells using (cell)
where measurements.preferred
    and list_contains($metrics::varchar[], measurements.metric)
    and list_contains($statistics::varchar[], measurements.statistic)
order by measurements.metric, measurements.statistic, measurements.cell
