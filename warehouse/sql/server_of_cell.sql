-- What is told of the server behind one cell, as JSON text; no row where there is no such cell.
-- Parameters: $cell_id.
select
    sources.commands,
    sources.environment,
    sources.report_config
from cells
join sources using (source_id)
where cells.cell_id = $cell_id
