-- One row per filter and value that occurs, with the number of cells that have it.
-- Parameters: none.
with texts as (
    select
        coalesce(model, 'unknown') as model,
        coalesce(gpu, 'unknown') as gpu,
        coalesce(engine_version, 'unknown') as engine_version,
        coalesce(dataset, 'unknown') as dataset,
        coalesce(cast(tensor_parallel_size as varchar), 'unknown') as tensor_parallel_size,
        arm_label as arm,
        coalesce(study, 'unknown') as study
    from cells
)

select 'model' as field, model as value, count(*) as cells from texts group by all
union all
select 'gpu', gpu, count(*) from texts group by all
union all
select 'engine_version', engine_version, count(*) from texts group by all
union all
select 'dataset', dataset, count(*) from texts group by all
union all
select 'tensor_parallel_size', tensor_parallel_size, count(*) from texts group by all
union all
select 'arm', arm, count(*) from texts group by all
union all
select 'study', study, count(*) from texts group by all
order by field, value
