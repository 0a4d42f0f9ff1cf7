-- One row per cell whose requests none of the two rules keeps, with the file that they are in.
-- Parameters: $since (runs from then on keep them), $nights (so many of the newest nights of each study
-- keep them, noon to noon UTC); null: the rule keeps none.
with runs as (
    select
        cells.source_id,
        cells.run_id,
        any_value(cells.study) as study,
        max(coalesce(cells.started_at, sources.ingested_at)) as measured_at
    from cells
    join sources using (source_id)
    group by cells.source_id, cells.run_id
),

ranked as (
    select
        source_id,
        run_id,
        measured_at,
        dense_rank() over (
            partition by study
            order by cast(measured_at - interval 12 hours as date) desc
        ) as night
    from runs
),

outlived as (
    select source_id, run_id
    from ranked
    where ($since::timestamptz is null or measured_at < $since::timestamptz)
        and ($nights::bigint is null or night > $nights::bigint)
)

select cells.cell, cells.cell_id, cell_requests.file
from cells
join cell_requests using (cell)
semi join outlived using (source_id, run_id)
order by cells.cell
