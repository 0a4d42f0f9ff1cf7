-- One row per kind of reference that points to nothing, or of key that stands twice.
-- Parameters: none.
with findings as (
    select 'measurements without a cell' as place, count(*) as rows
    from measurements anti join cells using (cell)
    union all
    select 'samples without a cell', count(*)
    from samples anti join cells using (cell)
    union all
    select 'positions without their acceptance', count(*)
    from acceptance_by_position anti join acceptance using (cell, source)
    union all
    select 'request files without a cell', count(*)
    from request_files anti join cell_requests using (file)
    union all
    select 'measurements that stand twice', count(*)
    from (
        select 1 from measurements group by cell, origin, metric, statistic having count(*) > 1
    )
)

select place, rows
from findings
where rows > 0
order by place
