-- What is told of the server behind one cell beyond facts: the commands by engine and the variables that its
-- study set (JSON text), and the model's path where SGLang's report tells it; null for unknown.
-- Parameters: $cell_id.
select
    sources.commands,
    json_extract(sources.environment, '$.asked.environment')::varchar as environment,
    json_extract_string(sources.report_config, '$.runs[0].server_info.model_path') as model_path
from cells
join sources using (source_id)
where cells.cell_id = $cell_id
