-- Puts tables of what stays in place of the views over a segment: the cells of the table `kept`.

create temp table sources as
from store.sources semi join kept using (source_id);

create temp table cells as
from store.cells semi join kept using (cell);

create temp table measurements as
from store.measurements semi join kept using (cell);

create temp table acceptance as
from store.acceptance semi join kept using (cell);

create temp table acceptance_by_position as
from store.acceptance_by_position semi join kept using (cell);

create temp table flags as
from store.flags semi join kept using (cell);

create temp table samples as
from store.samples semi join kept using (cell);

create temp table cell_requests as
from store.cell_requests semi join kept using (cell);

create temp table request_files as
from store.request_files semi join cell_requests using (file);
