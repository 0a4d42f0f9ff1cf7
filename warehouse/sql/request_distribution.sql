-- One row per point of the empirical distribution of one metric over the completed requests of a cell.
-- Parameters: $files, $cell_id, $metric, $points.
with requests as (
    select
        case $metric
            when 'ttft' then ttft
            when 'itl' then itl
            when 'tpot' then tpot
            when 'request_latency' then request_latency
            when 'prompt_tokens' then prompt_tokens
            when 'output_tokens' then output_tokens
        end as value
    from read_parquet($files::varchar[])
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
