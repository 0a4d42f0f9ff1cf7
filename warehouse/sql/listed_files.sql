-- One row per request file that this generation reads.
-- Parameters: none.
select file, sha256, rows, bytes
from request_files
order by file
