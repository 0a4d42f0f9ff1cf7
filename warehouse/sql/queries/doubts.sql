-- One row per kind of flag on the cells that the filters keep, with one of its sentences; most cells first.
-- Parameters: the filters ($model, $gpu, $engine_version, $dataset, $tensor_parallel_size, $arm, $study,
-- $since, $until).
with kept as (
    from chosen(
    $model::varchar[], $gpu::varchar[], $engine_version::varchar[], $dataset::varchar[],
    $tensor_parallel_size::varchar[], $arm::varchar[], $study::varchar[],
    $since::date, $until::date
)
)

select name, severity, count(distinct cell) as cells, min(sentence) as sentence
from flags
semi join kept using (cell)
group by name, severity
order by cells desc, name
