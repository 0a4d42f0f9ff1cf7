-- One row: what the warehouse holds.
-- Parameters: none.
select
    (select any_value(schema_version) from meta) as schema_version,
    (select count(*) from sources) as sources,
    (select count(*) from cells) as cells,
    (
        select count(distinct (source_id, run_id))
        from cells
        semi join excluded_runs using (source_id, run_id)
    ) as excluded_runs,
    (select coalesce(sum(rows), 0)::bigint from cell_requests) as requests,
    (select count(*) from measurements) as measurements,
    (select count(*) from flags) as flags,
    (select count(*) from rejections) as rejections,
    (select count(*) from request_files) as request_files,
    (select coalesce(sum(bytes), 0)::bigint from request_files) as request_bytes
