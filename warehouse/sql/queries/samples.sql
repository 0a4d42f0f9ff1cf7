-- One row per server metric and moment of one cell.
-- Parameters: $cell_id.
with chosen_cell as (
    select cell from cells where cell_id = $cell_id
)

select "at", name, value
from samples
semi join chosen_cell using (cell)
order by name, "at"
