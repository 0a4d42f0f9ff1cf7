-- One row per ingested source and run within it, newest first; `excluded` is the reason of an
-- exclusion by name, null where there is none.
-- Parameters: $filters.
with totals as (
    select
        source_id,
        run_id,
        min(model) as model,
        min(gpu) as gpu,
        min(dataset) as dataset,
        min(study) as study,
        min(evidence) as evidence,
        list_sort(list(distinct arm_label)) as arms,
        list_sort(list(distinct concurrency) filter (concurrency is not null)) as concurrencies,
        min(load_generator) as load_generator,
        min(load_generator_version) as load_generator_version,
        min(schema_generation) as schema_generation,
        min(started_at) as started_at,
        count(*) as cells,
        sum(completed)::bigint as completed,
        sum(errored)::bigint as errored,
        sum(incomplete)::bigint as incomplete,
        sum(flags)::bigint as flags,
        count(*) filter (status = 'failed') as failed
    from cells
    semi join kept_by($filters) using (cell)
    group by source_id, run_id
)

select
    totals.*,
    sources.* exclude (source_id),
    excluded_runs.reason as excluded,
    excluded_runs.author as excluded_by,
    excluded_runs.excluded_at
from totals
join sources using (source_id)
left join excluded_runs using (source_id, run_id)
order by sources.ingested_at desc, sources.path, totals.run_id
