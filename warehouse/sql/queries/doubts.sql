-- One row per kind of flag on the cells that the filters keep, with one of its sentences; most cells first.
-- Parameters: $filters.
select name, severity, count(distinct cell) as cells, min(sentence) as sentence
from flags
semi join kept_by($filters) using (cell)
group by name, severity
order by cells desc, name
