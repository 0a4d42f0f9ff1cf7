-- One row per ingested source, newest first, with the number of its cells and requests.
-- Parameters: none.
with counts as (
    select
        cells.source_id,
        count(*) as cells,
        coalesce(sum(cell_requests.rows), 0)::bigint as requests
    from cells
    left join cell_requests using (cell)
    group by cells.source_id
)

select
    sources.*,
    coalesce(counts.cells, 0) as cells,
    coalesce(counts.requests, 0) as requests
from sources
left join counts using (source_id)
order by sources.ingested_at desc, sources.path
