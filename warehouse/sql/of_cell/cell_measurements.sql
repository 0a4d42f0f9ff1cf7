-- One row per origin, metric and statistic of one cell: everything that is known of it.
-- Parameters: $cell_id.
with chosen_cell as (
    select cell from cells where cell_id = $cell_id
)

select origin, metric, statistic, value
from measurements
semi join chosen_cell using (cell)
order by metric, statistic, origin
