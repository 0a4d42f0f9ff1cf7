-- The tables of one generation. Unknown is null, never zero; ratios are 0-1; times are UTC.
-- Foreign keys guard the small tables; `draftboard warehouse check` verifies the large ones.

create table meta (
    schema_version integer not null
);

create table sources (
    source_id varchar primary key check (length(source_id) > 0),
    path varchar not null,
    format varchar not null,
    bytes bigint not null check (bytes >= 0),
    provenance varchar,
    commands varchar not null,
    environment varchar not null,
    settings varchar not null,
    report_config varchar not null,
    ingested_at timestamptz not null
);

-- `cell` is the short number that the long tables use instead of the text identity.
create table cells (
    cell integer not null unique,
    cell_id varchar primary key check (length(cell_id) = 20),
    source_id varchar not null references sources (source_id),
    "index" integer not null check ("index" >= 0),
    run_id varchar not null,
    arm_label varchar not null,
    study varchar,
    arm varchar,
    repeat bigint check (repeat >= 0),
    launch varchar,
    model varchar,
    model_revision varchar,
    precision varchar,
    engine varchar,
    engine_version varchar,
    gpu varchar,
    gpu_count bigint check (gpu_count >= 1),
    tensor_parallel_size bigint check (tensor_parallel_size >= 1),
    prefix_caching boolean,
    server_args varchar,
    engine_settings varchar,
    dataset varchar,
    prompt_set_hash varchar,
    request_format varchar check (request_format in ('chat_completions', 'text_completions')),
    temperature double check (temperature >= 0),
    top_p double check (top_p > 0 and top_p <= 1),
    seed bigint,
    max_tokens bigint check (max_tokens >= 1),
    ignore_eos boolean,
    load_profile varchar,
    concurrency bigint check (concurrency >= 1),
    rate double check (rate > 0),
    trace varchar,
    spec_method varchar,
    num_speculative_tokens bigint check (num_speculative_tokens between 1 and 1000),
    draft_model varchar,
    draft_revision varchar,
    speculative_config varchar,
    synthetic_acceptance boolean,
    evidence varchar check (evidence in ('gpu', 'cpu', 'mock', 'dummy_weights', 'simulated')),
    load_generator varchar not null,
    load_generator_version varchar,
    schema_generation varchar not null,
    reported_definition varchar not null,
    comparable_as varchar not null,
    started_at timestamptz,
    "order" bigint check ("order" >= 0),
    duration double check (duration >= 0 and isfinite(duration)),
    requests_made bigint check (requests_made >= 0),
    completed bigint not null check (completed >= 0),
    errored bigint not null check (errored >= 0),
    incomplete bigint not null check (incomplete >= 0),
    requests_complete boolean not null,
    stop_reason varchar,
    status varchar not null check (status in ('good', 'failed')),
    flags integer not null check (flags >= 0)
);

-- One row per cell, origin, metric and statistic; `preferred` marks canonical, else reported.
create table measurements (
    cell integer not null,
    origin varchar not null check (origin in ('canonical', 'reported')),
    metric varchar not null,
    statistic varchar not null,
    value double not null check (isfinite(value)),
    preferred boolean not null
);

create table acceptance (
    cell integer not null references cells (cell),
    source varchar not null check (source in ('counters', 'requests', 'vllm_bench')),
    drafts bigint check (drafts >= 0),
    draft_tokens bigint check (draft_tokens >= 0),
    accepted_tokens bigint check (accepted_tokens >= 0),
    rate double check (rate between 0 and 1),
    mean_length double check (mean_length >= 1 and isfinite(mean_length)),
    primary key (cell, source)
);

create table acceptance_by_position (
    cell integer not null,
    source varchar not null check (source in ('counters', 'requests', 'vllm_bench')),
    position integer not null check (position >= 0),
    rate double not null check (rate between 0 and 1)
);

create table flags (
    cell integer not null references cells (cell),
    name varchar not null,
    severity varchar not null check (severity in ('info', 'warning', 'error')),
    sentence varchar not null
);

create table samples (
    cell integer not null,
    "at" double not null check (isfinite("at")),
    name varchar not null,
    value double not null check (isfinite(value))
);

create table rejections (
    path varchar primary key,
    reason varchar not null,
    rejected_at timestamptz not null
);

-- The Parquet files that this generation reads, and which cell's requests are where.
create table request_files (
    file varchar primary key check (file like '%.parquet'),
    sha256 varchar not null check (length(sha256) = 64),
    rows bigint not null check (rows >= 0),
    bytes bigint not null check (bytes > 0)
);

create table cell_requests (
    cell integer primary key references cells (cell),
    file varchar not null references request_files (file),
    rows bigint not null check (rows >= 0)
);
