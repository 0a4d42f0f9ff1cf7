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

-- The one meaning of the filters, for our queries and for questions in SQL: each list keeps its values,
-- an empty one everything; days (UTC, both included) keep cells that started then, null keeps
-- everything. Excluded runs are out.
create macro chosen(
    model_in := [], gpu_in := [], engine_version_in := [], dataset_in := [],
    tensor_parallel_size_in := [], arm_in := [], study_in := [], since := null::date, until := null::date
) as table
select cell, cell_id
from store.cells
where cell not in (select cell from left_out)
    and (len(model_in) = 0 or list_contains(model_in, coalesce(model, 'unknown')))
    and (len(gpu_in) = 0 or list_contains(gpu_in, coalesce(gpu, 'unknown')))
    and (
        len(engine_version_in) = 0
        or list_contains(engine_version_in, coalesce(engine_version, 'unknown'))
    )
    and (len(dataset_in) = 0 or list_contains(dataset_in, coalesce(dataset, 'unknown')))
    and (
        len(tensor_parallel_size_in) = 0
        or list_contains(
            tensor_parallel_size_in, coalesce(cast(tensor_parallel_size as varchar), 'unknown')
        )
    )
    and (len(arm_in) = 0 or list_contains(arm_in, arm_label))
    and (len(study_in) = 0 or list_contains(study_in, coalesce(study, 'unknown')))
    and (since is null or started_at >= since)
    and (until is null or started_at < until + 1);

-- The same by one struct, as `Filters.as_parameters` makes it.
create macro kept_by(filters) as table
from chosen(
    struct_extract(filters, 'model')::varchar[],
    struct_extract(filters, 'gpu')::varchar[],
    struct_extract(filters, 'engine_version')::varchar[],
    struct_extract(filters, 'dataset')::varchar[],
    struct_extract(filters, 'tensor_parallel_size')::varchar[],
    struct_extract(filters, 'arm')::varchar[],
    struct_extract(filters, 'study')::varchar[],
    struct_extract(filters, 'since')::date,
    struct_extract(filters, 'until')::date
);
