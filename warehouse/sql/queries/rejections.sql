-- One row per file that was not taken in, newest first.
-- Parameters: none.
select path, reason, rejected_at
from rejections
order by rejected_at desc, path
