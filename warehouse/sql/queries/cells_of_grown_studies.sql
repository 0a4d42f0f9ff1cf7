-- How many cells the studies hold that took in a source after $upto; all cells where that is null. Results
-- without a study are one for each model, hardware and dataset.
-- Parameters: $upto.
with studies as (
    select
        count(*) as cells,
        bool_or(coalesce(sources.ingested_at > $upto::timestamptz, true)) as has_grown
    from cells
    join sources using (source_id)
    group by
        cells.study,
        case when cells.study is null then (cells.model, cells.gpu, cells.dataset) end
)

select coalesce(sum(cells), 0)::bigint as cells
from studies
where has_grown
