-- What every reader has beside the generation attached as `store`: the runs that people excluded by
-- name, the cells that are left out for it, and which cells the filters keep.

create table excluded_runs (
    run_id varchar not null,
    source_id varchar not null,
    reason varchar not null,
    author varchar not null,
    excluded_at timestamptz not null
);

create table left_out (
    cell integer not null
);

-- The one meaning of the filters: each list keeps its values, an empty list keeps everything;
-- days (UTC, both included) keep cells that started then, null keeps everything. Excluded runs are out.
create macro chosen(models, gpus, engine_versions, datasets, tps, arms, studies, since, until) as table
select cell
from store.cells
where cell not in (select cell from left_out)
    and (len(models) = 0 or list_contains(models, coalesce(model, 'unknown')))
    and (len(gpus) = 0 or list_contains(gpus, coalesce(gpu, 'unknown')))
    and (
        len(engine_versions) = 0
        or list_contains(engine_versions, coalesce(engine_version, 'unknown'))
    )
    and (len(datasets) = 0 or list_contains(datasets, coalesce(dataset, 'unknown')))
    and (
        len(tps) = 0
        or list_contains(tps, coalesce(cast(tensor_parallel_size as varchar), 'unknown'))
    )
    and (len(arms) = 0 or list_contains(arms, arm_label))
    and (len(studies) = 0 or list_contains(studies, coalesce(study, 'unknown')))
    and (since is null or started_at >= since)
    and (until is null or started_at < until + 1);
