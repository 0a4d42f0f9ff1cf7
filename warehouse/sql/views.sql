-- What a question in SQL may ask: the documented views, over one generation attached as `store`.
-- They leave out the runs that are excluded by name, as every page does; which these are, and why,
-- stands in the table `excluded_runs` of `chosen.sql`, which is run before this.

create view cells as
select
    cells.* exclude (cell),
    sources.format as source_format,
    sources.provenance,
    sources.ingested_at
from store.cells
anti join left_out using (cell)
join store.sources using (source_id);

create view measurements as
select
    cell_id, arm_label, model, gpu, dataset, tensor_parallel_size, concurrency, repeat,
    metric, statistic, value, origin
from store.measurements
anti join left_out using (cell)
join store.cells using (cell)
where preferred;

create view acceptance as
select
    cell_id, arm_label, model, gpu, dataset, tensor_parallel_size, concurrency, repeat,
    num_speculative_tokens, acceptance.* exclude (cell)
from store.acceptance
anti join left_out using (cell)
join store.cells using (cell);

create view acceptance_by_position as
select
    cell_id, arm_label, model, gpu, dataset, tensor_parallel_size, concurrency, repeat,
    num_speculative_tokens, source, position, acceptance_by_position.rate
from store.acceptance_by_position
anti join left_out using (cell)
join store.cells using (cell);

create view flags as
select
    cell_id, arm_label, dataset, concurrency, name, severity, sentence
from store.flags
anti join left_out using (cell)
join store.cells using (cell);

create view samples as
select
    cell_id, arm_label, dataset, concurrency, repeat, "at", name, value
from store.samples
anti join left_out using (cell)
join store.cells using (cell);

create view rejections as
select
    reason,
    rejected_at
from store.rejections;
