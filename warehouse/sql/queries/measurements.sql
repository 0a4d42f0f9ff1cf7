-- One row per kept cell, metric and statistic: canonical where there is one, else reported.
-- Parameters: $filters, $metrics, $statistics.
select
    cells.cell_id,
    measurements.origin,
    measurements.metric,
    measurements.statistic,
    measurements.value
from measurements
semi join kept_by($filters) using (cell)
join cells using (cell)
where measurements.preferred
    and list_contains($metrics::varchar[], measurements.metric)
    and list_contains($statistics::varchar[], measurements.statistic)
order by measurements.metric, measurements.statistic, measurements.cell
