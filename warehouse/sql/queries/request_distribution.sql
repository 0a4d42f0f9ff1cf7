-- One row per point of the empirical distribution of one metric over the completed requests of a cell.
-- Parameters: $files, $cell_id, $metric, $points.
with requests as (
    select struct_extract(request, $metric) as value
    from read_parquet($files::varchar[]) as request
    where cell_id = $cell_id
        and status = 'completed'
),

known as (
    select list_sort(list(value)) as sorted, count(*) as n
    from requests
    where value is not null
),

points as (
    select unnest(range(1, $points::bigint + 1)) / $points::double as share
)

select share, sorted[greatest(1, ceil(share * n - 1e-9))::bigint] as value
from known, points
where n > 0
order by share
