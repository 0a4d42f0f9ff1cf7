"""Credentials as people and tools leave them lying about, and values that look like some and are none.

Every credential here is made up, of letters that a random generator gave.
"""

import hashlib
import random
import string
import uuid
from collections.abc import Callable
from typing import Any

_LETTERS = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
Made = tuple[Any, str]
"""A value that holds a credential, and the credential."""


def _drawn(seed: str, length: int, letters: str = _LETTERS) -> str:
    """As an issuer draws it: with a digit and both cases where the letters have them."""
    source = random.Random(seed)
    while True:
        found = "".join(source.choices(letters, k=length))
        if any(c.isdigit() for c in found) and (
            letters != _LETTERS or (found.lower() != found != found.upper())
        ):
            return found


def _text(template: str) -> Callable[[str], Made]:
    def make(seed: str) -> Made:
        secret = _drawn(seed, 24)
        return template.replace("{}", secret), secret

    return make


def _shape(
    start: str, length: int, letters: str = _LETTERS, template: str = "{}"
) -> Callable[[str], Made]:
    def make(seed: str) -> Made:
        secret = _drawn(seed, length, letters)
        return template.replace("{}", start + secret), secret

    return make


def _pem(kind: str, end: bool) -> Callable[[str], Made]:
    def make(seed: str) -> Made:
        body = [_drawn(seed + str(n), 64) for n in range(3)]
        lines = [f"-----BEGIN {kind}-----", *body, *([f"-----END {kind}-----"] if end else [])]
        return "\n".join(lines), body[1]

    return make


def _pem_lines(seed: str) -> Made:
    text, secret = _pem("PRIVATE KEY", True)(seed)
    return ["server started", *text.split("\n"), "server ended"], secret


def _value(build: Callable[[str], Any]) -> Callable[[str], Made]:
    def make(seed: str) -> Made:
        secret = _drawn(seed, 24)
        return build(secret), secret

    return make


#: 100 ways; each makes another credential for another seed.
FORMS: dict[str, Callable[[str], Made]] = {
    # assignments, as in shells, files and logs
    "HF_TOKEN": _text("HF_TOKEN={}"),
    "NGC_KEY": _text("NGC_KEY={} vllm serve tiny"),
    "OPENAI_KEY": _text("export OPENAI_KEY={}"),
    "DB_PWD": _text("DB_PWD={}"),
    "DB_PASS": _text("DB_PASS={};"),
    "GITHUB_PAT": _text("GITHUB_PAT={}"),
    "PGPASSWORD": _text("PGPASSWORD={} psql -h db"),
    "AWS_SECRET_ACCESS_KEY": _text("AWS_SECRET_ACCESS_KEY={}"),
    "quoted": _text('WANDB_API_KEY="{}"'),
    "with spaces": _text('password = "{} and more"'),
    "yaml": _text("token: {}"),
    "yaml quoted": _text("hf_token: '{}'"),
    "nested yaml": _text("env:\n  - name: HF_TOKEN\n    value: {}\n"),
    "yaml block": _text("api_key: |\n  {}\n"),
    "flow yaml": _text("{name: HF_TOKEN, value: {}}"),
    "json": _text('{"api_key": "{}"}'),
    "escaped json": _text('{\\"api_key\\": \\"{}\\"}'),
    "camel case": _text('{"clientSecret":"{}"}'),
    "repr": _text("Namespace(api_key='{}', port=8000)"),
    "list repr": _text("non-default args: {'api_key': ['{}'], 'port': 8000}"),
    "command repr": _text("['vllm', 'serve', '--api-key', '{}']"),
    "arrow": _text("'password' => '{}'"),
    "xml": _text("<password>{}</password>"),
    "words": _text("API key: {}"),
    "client_secret%3D": _text("client_secret%3D{}%26grant%3Dx"),
    "double percent": _text("state%253D1%2526access_token%253D{}"),
    "percent json": _text("%7B%22api_key%22%3A%22{}%22%7D"),
    "connection string": _text("Server=db;User Id=a;Password={};Encrypt=true"),
    "AccountKey": _text("DefaultEndpointsProtocol=https;AccountKey={};EndpointSuffix=x"),
    "properties": _text("spring.datasource.password={}"),
    # options of command lines
    "--api-key": _text("vllm serve tiny --api-key {} --port 8000"),
    "--api-key=": _text("vllm serve tiny --api-key={}"),
    "--hf-token over lines": _text("vllm serve tiny \\\n  --hf-token \\\n  {}"),
    "--password quoted": _text('mytool --password "{}" run'),
    "wandb login": _text("wandb login {}"),
    "wandb login --relogin": _text("wandb login --relogin --host=https://w {}"),
    "huggingface-cli login": _text("huggingface-cli login --token {}"),
    "vault login": _text("vault login {}"),
    "docker login": _text("docker login -u bot -p {} registry"),
    "docker -e": _text("docker run -e MY_OWN={} image"),
    "--env": _text("podman run --env MY_OWN={} image"),
    "curl -u": _text("curl -u admin:{} http://h/metrics"),
    "curl -H": _text("curl -H 'X-Api-Key: {}' http://h"),
    "sshpass": _text("sshpass -p {} ssh h"),
    "mysql": _text("mysql -h db -uroot -p{} x"),
    "redis-cli": _text("redis-cli -h db -a {}"),
    "ENV": _text("ENV HF_TOKEN {}"),
    "fish": _text("set -gx HF_TOKEN {}"),
    "a sign inside": _text("DB_PASSWORD=one1&{} psql -h db"),
    "aws configure": _text("aws configure set aws_secret_access_key {}"),
    "netrc": _text("machine api.wandb.ai login user password {}"),
    # headers
    "Bearer": _text("Authorization: Bearer {}"),
    "Basic": _text("401 for Authorization: Basic {}"),
    "Token": _text("authorization: token {}"),
    "bare Bearer": _text("refused: Bearer {}"),
    "Cookie": _text("Cookie: theme=dark; session={}"),
    "Set-Cookie": _text("set-cookie: session={}; Path=/"),
    "signed": _text("Authorization: AWS4-HMAC-SHA256 Credential=AB/x, Signature={}"),
    "X-Amz-Security-Token": _text("X-Amz-Security-Token: {}"),
    # addresses
    "userinfo": _text("https://user:{}@host/v1"),
    "token as user": _text("https://{}@github.com/o/r.git"),
    "database": _text("postgresql+psycopg://u:{}@db:5432/x"),
    "redis": _text("redis://:{}@cache:6379/0"),
    "access_token=": _text("https://h/v1?x=1&access_token={}"),
    "sig=": _text("https://a.blob.core.windows.net/c?sv=2024&sig={}&se=2027"),
    "X-Amz-Signature=": _text("https://b.s3.amazonaws.com/k?X-Amz-Signature={}"),
    "key=": _text("https://maps.example/api?key={}"),
    "Slack webhook": _text("https://hooks.slack.com/services/T0AB12CD/B0AB12CD/{}"),
    "Slack webhook, escaped": _text("https:\\/\\/hooks.slack.com\\/services\\/T0\\/B0\\/{}"),
    "Discord webhook": _text("https://discord.com/api/webhooks/113355779/{}"),
    "Teams webhook": _text("https://x.webhook.office.com/webhookb2/{}@t/IncomingWebhook/y/z"),
    "Apprise": _text("slack://T0AB12CD/B0AB12CD/{}"),
    "Apprise Telegram": _text("tgram://{}/12345"),
    # sentences
    "password is": _text("the password is {}"),
    "password was": _text("Its password was {}, since changed."),
    "passphrase": _text("passphrase {}"),
    "token is": _text("my token is {}"),
    "api key is": _text("The API key is {}."),
    # shapes
    "hf_": _shape("hf_", 34),
    "sk-": _shape("sk-", 48),
    "sk-proj-": _shape("sk-proj-", 60),
    "sk-ant-": _shape("sk-ant-api03-", 80),
    "nvapi-": _shape("nvapi-", 60),
    "draftboard_": _shape("draftboard_0a1b2c3d_", 43),
    "ghp_": _shape("ghp_", 36),
    "github_pat_": _shape("github_pat_", 60),
    "glpat-": _shape("glpat-", 20),
    "xoxb-": _shape("xoxb-", 24),
    "xapp-": _shape("xapp-1-", 30),
    "AIza": _shape("AIza", 35),
    "AKIA": _shape("AKIA", 16, string.ascii_uppercase + string.digits),
    "dapi": _shape("dapi", 32, _HEX),
    "npm_": _shape("npm_", 36),
    "pypi-": _shape("pypi-AgEIcHlwaS5vcmc", 60),
    "hvs.": _shape("hvs.", 24),
    "SG.": _shape("SG.", 60),
    "dckr_pat_": _shape("dckr_pat_", 27),
    "gsk_": _shape("gsk_", 52),
    "r8_": _shape("r8_", 37),
    "fw_": _shape("fw_", 24),
    "sk_live_": _shape("sk_live_", 24),
    "JWT": _shape("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.", 43),
    "Telegram": _shape("110201543:AA", 33),
    "in a file name": _shape("hf_", 34, template="report_{}.json"),
    "in a path": _shape("glpat-", 20, template="/data/x-{}/report.json"),
    # as logs, addresses and code spell them
    "colour": _shape("hf_", 34, template="\x1b[32m{}\x1b[0m loaded"),
    "colour at a name": _text("\x1b[36mapi_key\x1b[0m=\x1b[35m{}\x1b[0m"),
    "escaped sign": _text('{\\"u\\": \\"http://x?api_key\\u003d{}\\"}'),
    "escaped line": _shape("hf_", 34, template="stderr=b'saved\\n{}\\n'"),
    "percent before": _shape("glpat-", 20, template="GET /login?next=%2Fcb%3Ftok%3D{}"),
    "escaped letter": _shape("ghp_", 36, template="a=1\\u0026t\\u003d{}"),
    "Slack webhook, percent": _text("n=https%3A%2F%2Fhooks.slack.com%2Fservices%2FT0AB%2FB0AB%2F{}"),
    "second of a list": _text("args: {'port': 8000, 'api_key': ['EMPTY', '{}'], 'model': 'm'}"),
    "second of an option": _text("vllm serve m --api-key 0ne0fTw0 {} --port 8000"),
    "second by a comma": _text("VLLM_API_KEY=one1Key,{} vllm serve m"),
    "percent header": _text("Authorization%3A%20Bearer%20{}"),
    "escaped userinfo": _text("https:\\/\\/u:{}@host\\/v1"),
    "percent userinfo": _text("p=https%3A%2F%2Fu%3A{}%40host"),
    "wandb.login": _text('wandb.login(key="{}")'),
    "os.environ": _text("os.environ['OPENAI_API_KEY'] = '{}'"),
    "os.getenv": _text('os.getenv("HF_TOKEN", "{}")'),
    "API key provided": _text("Incorrect API key provided: {}. You can find yours"),
    "auth tuple": _text("requests.get(u, auth=('admin', '{}'))"),
    "password for": _text("password for root: {}"),
    "password of a place": _text("password (staging): {}"),
    "password arrow": _text("password -> {}"),
    "markdown": _text("**API key:** {}"),
    "bytes": _text("api_key=b'{}'"),
    "SecretStr": _text("api_key=SecretStr('{}')"),
    # as people type and tools keep them
    "pw:": _text("pw: {}"),
    "creds=": _text("creds={} connect"),
    "psk=": _text('network={ssid="lab" psk="{}"}'),
    "setx": _text("setx HF_TOKEN {}"),
    "setx for all": _text("setx /M WANDB_API_KEY {}"),
    "curl -b": _text("curl -b 'session={}' http://h"),
    "curl --proxy-user": _text("curl --proxy-user bot:{} http://h"),
    "curl -U": _text("curl -U bot:{} http://h"),
    "ldapsearch -w": _text("ldapsearch -x -D cn=bench -w {} -b dc=lab"),
    "setPassword": _text('client.setPassword("{}")'),
    "set_token": _text("session.set_token('{}')"),
    "on the next line": _text("secret:\n  {}\nnext: 1"),
    "on the next line, escaped": _text("stderr=b'token:\\n{}\\n'"),
    "in the path of an address": _text("GET https://h/api/token/{}/refresh"),
    "a word that nobody writes": _text("started with {} on node7"),
    "behind a name that nobody knows": _text("lab-door={} vllm serve tiny"),
    "hf_oauth_": _shape("hf_oauth_", 80, _LETTERS + "_"),
    "dp.st.": _shape("dp.st.prd_bench.", 40),
    "private key": _pem("RSA PRIVATE KEY", True),
    "private key cut off": _pem("OPENSSH PRIVATE KEY", False),
}  # fmt: skip

#: The same in JSON, where name and value are apart.
STRUCTURED: dict[str, Callable[[str], Made]] = {
    "member": _value(lambda s: {"api_key": s}),
    "member NGC_KEY": _value(lambda s: {"NGC_KEY": s}),
    "header": _value(lambda s: {"headers": {"Authorization": f"Bearer {s}", "accept": "*/*"}}),
    "name and value": _value(lambda s: {"env": [{"name": "HF_TOKEN", "value": s}]}),
    "key and value": _value(lambda s: {"key": "DB_PWD", "value": s}),
    "pair": _value(lambda s: [["HF_TOKEN", s], ["PORT", "8000"]]),
    "command": _value(lambda s: ["vllm", "serve", "tiny", "--api-key", s, "--port", "1"]),
    "command with two keys": _value(lambda s: ["vllm", "--api-key", "0ne0fTw0", s, "--port", "1"]),
    "login": _value(lambda s: ["wandb", "login", s]),
    "docker -e": _value(lambda s: ["docker", "run", "-e", f"MY_OWN={s}", "image"]),
    "curl -u": _value(lambda s: ["curl", "-u", f"admin:{s}", "http://h"]),
    "variable by allow-list": _value(lambda s: {"env": {"MY_OWN": s, "CUDA_VISIBLE_DEVICES": "0"}}),
    "variables of a list": _value(lambda s: {"env": [f"MY_OWN={s}"]}),
    "nested": _value(lambda s: {"a": [{"b": {"credentials": {"user": "u", "more": [s]}}}]}),
    "in a key": _value(lambda s: {f"https://u:{s}@h": 1}),
    "private key by lines": _pem_lines,
}  # fmt: skip


def ordinary() -> list[str]:
    """500 values of the kinds that results are full of; none is a credential."""
    draw = random.Random("ordinary")
    hexes = ["".join(draw.choices(_HEX, k=40)) for _ in range(60)]
    digests = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(60)]
    ids = [str(uuid.UUID(int=draw.getrandbits(128), version=4)) for _ in range(40)]
    numbers = [
        f"{draw.uniform(0, 10 ** draw.randint(0, 6)):.{draw.randint(0, 9)}f}" for _ in range(40)
    ]
    drawn = [
        *hexes[:30],
        *(f"revision: {h}" for h in hexes[30:40]),
        *(f"vllm@{h[:12]}" for h in hexes[40:50]),
        *(f"local:{h[:16]}" for h in hexes[50:]),
        *(f"sha256:{d}" for d in digests[:20]),
        *(f"vllm/vllm-openai@sha256:{d}" for d in digests[20:35]),
        *(d[:32] for d in digests[35:50]),
        *(f"prompt_set_hash={d}" for d in digests[50:]),
        *ids[:20],
        *(f"run_id={i}" for i in ids[20:30]),
        *(f"GPU-{i}" for i in ids[30:]),
        *numbers,
        *(f"{n}ms" for n in numbers[:10]),
        *(f"max_tokens={n}" for n in range(1, 21)),
        *(f"--max-num-batched-tokens {n * 512}" for n in range(1, 11)),
        *(f"chatcmpl-{h[:32]}" for h in hexes[:10]),
        *(f"swe-bench/c{2**n}-r{n}" for n in range(8)),
    ]  # fmt: skip
    found = list(dict.fromkeys([*drawn, *_WORDS.strip().splitlines()]))
    return found[:500]


#: Each line is one; such lines stand in real records, logs, notes and command lines.
_WORDS = r"""
max_tokens
max_tokens: 256
"max_tokens": 256, "eos_token": "</s>"
{"pad_token": "<pad>", "bos_token": "<s>", "unk_token": "<unk>"}
output_tokens: 7 prompt_tokens: 12
time_to_first_token_ms
inter_token_latency_ms
tokenizer
tokenizer: meta-llama/Llama-3.1-8B-Instruct
--tokenizer Qwen/Qwen3-8B --tokenizer-mode auto
tokenizer_name=deepseek-ai/DeepSeek-R1-Distill-Llama-70B
openai/gpt-oss-120b
meta-llama/Llama-3.3-70B-Instruct
Qwen/Qwen2.5-Coder-32B-Instruct-AWQ
mistralai/Mixtral-8x22B-Instruct-v0.1
nvidia/Llama-3.1-Nemotron-70B-Instruct-HF
RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic
yuhuili/EAGLE3-LLaMA3.1-Instruct-8B
lmsys/EAGLE3-gpt-oss-120b-bf16
nm-testing/SpeculatorLlama3-1-8B-Eagle3-converted-0717-quantized
AngelSlim/Qwen3-a3B_eagle3
hf-internal-testing/tiny-random-gpt2
hf_overrides
hf_transfer
hf_quant_config.json
HF_HUB_OFFLINE=1
HF_HOME=/data/cache
HF_HUB_ENABLE_HF_TRANSFER=1
VLLM_USE_V1=1
VLLM_ATTENTION_BACKEND=FLASHINFER
CUDA_VISIBLE_DEVICES=0,1,2,3
NCCL_DEBUG=INFO
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
OMP_NUM_THREADS=16
PWD=/home/bench/runs/2026-11-21
LD_PRELOAD=/usr/lib/libtcmalloc.so.4
docker run -e CUDA_VISIBLE_DEVICES=0 --gpus all vllm/vllm-openai:v0.32.0
docker run --user 1000:1000 -p 8000:8000 image
--speculative-config {"method": "eagle3", "num_speculative_tokens": 3}
speculative_config={"method": "ngram", "prompt_lookup_max": 4}
vllm serve openai/gpt-oss-120b --tensor-parallel-size 8 --max-model-len 32768
vllm serve /models/target --port 8000 --served-model-name tiny --seed 0
vllm serve m --api-key $API_KEY
--api-key EMPTY
OPENAI_API_KEY=EMPTY
api_key: None
"api_key": null
password is required
the password is not needed here
password: required
Invalid token: unexpected end of input
invalid token: <unk>
token is expired
the token budget: 5, a basic understanding, keys and values
Bearer authentication failed
basic authentication
401 Unauthorized: missing bearer token
secret is missing
the secret is to warm the cache
a cookie recipe
authentication: none
wandb login failed
wandb login --relogin
docker login failed
login to the node
key: value
sort_key: ttft
cache_key=prompt
primary_key: cell_id
"key": "output_throughput"
kv_cache_dtype=fp8
key_cache and value_cache
num_key_value_heads: 8
query_key_value
attention keys
monkey=5
image_key: image_1
"run_key": "k3-run-7", "experiment_key": "spec-k3-eagle3"
vllm bench serve --backend openai -u http://node7:8000
time to first token: 0.21
seconds per output token: 0.01ms
token: 512
--api-key EMPTY EMPTY --port 8000
"api_key": null, "model": "qwen3", "gpus": ["H200", "H200"]
tokens -> 512
--enable-prefix-caching
--disable-log-requests
--ssl-keyfile /etc/ssl/private/server.key
--ssl-certfile /etc/ssl/certs/server.pem
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
forward_pass: 12
pass: 3 of 4
passed=20 failed=0
first-pass
bypass=yes
auth: none
author: Ann
authors=Ann and Ben
https://host:8000/v1?limit=3
http://127.0.0.1:8000/v1/chat/completions
https://huggingface.co/openai/gpt-oss-120b/resolve/main/config.json
https://github.com/vllm-project/vllm/commit/0123456789abcdef0123456789abcdef01234567
ssh://git@github.com/vllm-project/vllm.git
git@github.com:vllm-project/vllm.git
s3://bucket/results/2026-11-21/c16-r0/guidellm.json
gs://bucket/draft-models/eagle3
file:///data/prompts.jsonl
mailing list: bench@example.org
ann@example.org
/data/results/h200/eagle3/swe-bench/c16-r0
/scratch/[user]/models/janet
~/models/x
C:\Users\[user]\reports\c16.json
results/laptop-lab/eagle-k3/code/c4-r1/guidellm.json
report-2026-11-21T09:19:24Z.json
guidellm-0.8.1_c16_r0.json.zst
openai-infqps-concurrency16-gpt-oss-120b-20261121-091924.json
task-0123456789abcdefghij
disk-0123456789abcdefghij
risk-adjusted-throughput-2026
ask-me-anything-dataset-v2
desk-0001-results-of-the-night
mask_token
sk-learn-pipeline-with-many-words
driver updated to 580.95
driver 590.44.01, CUDA 13.1
Nightly run on node-17, fans at 80 %.
We changed the key-value cache to fp8.
Notes: K=3 is best up to c=16; see the table.
the new tokens per second are better
first token after 120 ms
acceptance by position: 0.81, 0.64, 0.52
Acceptance rises with the position (0.1, 0.2), which cannot be.
2026-11-21T09:19:24.123456+00:00
1795252000.123456
[removed]
HTTP 500 Internal Server Error
asyncio.TimeoutError: 60 s
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
RuntimeError: Engine core initialization failed. See root cause above.
ValueError: max_model_len (32768) is larger than the model's (8192)
(EngineCore_0 pid=1234) INFO 11-21 09:19:24 [core.py:77] Initializing a V1 LLM engine
INFO 11-21 09:19:24 [api_server.py:1776] vLLM API server version 0.32.0
Using max model len 32768
Graph capturing finished in 24 secs, took 0.81 GiB
NVIDIA H200
NVIDIA H100 80GB HBM3
AMD Instinct MI300X
Intel(R) Xeon(R) Platinum 8480+
AMD EPYC 9654 96-Core Processor
Linux-6.8.0-45-generic-x86_64-with-glibc2.39
3.11.7 (main, Jan  1 2026, 00:00:00) [GCC 13.2.0]
torch==2.9.0+cu130
transformers 4.57.1
sha256 of the prompts
a1b2c3d4-unlike-anything
cells: 12, requests: 384, generation 1
concurrent
constant
poisson
gamma (burstiness 0.5)
eagle3 K=3
baseline
ngram K=5
draft_model
bfloat16
fp8_e4m3
mxfp4
SWE-bench
ShareGPT_V3_unfiltered_cleaned_split.json
random-input-1024-output-256
/v1/chat/completions
text_completions
data: {"prompt_tokens": 128, "output_tokens": 128, "samples": 1000}
{"temperature": 0, "top_p": 1.0, "seed": 42, "max_tokens": 256, "ignore_eos": true}
{"type_": "concurrent", "streams": 16, "max_concurrency": 16}
{"kind": "openai_http", "target": "http://127.0.0.1:8000", "model": "tiny"}
rejection_sample_method=standard
special_tokens_map.json
added_tokens.json
token_type_ids
token_iterations
stop_token_ids: [2]
skip_special_tokens=True
tokens_per_second
new_tokens=128
num_tokens: 4096
per_token
next_token: 42
draft_token: 17
first_token: 1.5
tool_call
signature
the signature of the model is unchanged
sign of the difference
design=2
passive cooling
compass
Basic
Bearer
keyboard
turnkey
hotkey
cookies are off
secretary
authority
credential-free
login
hooks
webhooks are off
eyJ
AKIA
MII
xoxo
npm_config
npm_lifecycle_event
pypi
sessions
session_id=abc
code=200
status code: 503
exit code=137
https://h/x?limit=10&offset=20
https://h/x?page=2#key
env
environment
name: tiny, value: 3
{"name": "concurrency", "value": "16"}
{"name": "dataset", "value": "SWE-bench"}
{"key": "gpu", "value": "H200"}
variable=1
export LANG=C.UTF-8
set -eu
-e
-p
-u
-p 8000
--user
--pass-through
lm-eval --tasks gsm8k
gsm8k
mmlu_pro
humaneval+
livecodebench_v6
aime25
gpt-oss-120b-eagle3-long-context
speculators/llama-3.1-8b-eagle3
arctic-inference
fw_baseline_eagle3_c16_2026
medusa-1.0
mlp_speculator
suffix decoding
parallel drafting
tree attention
dynamic K, 1 to 5
p50 p90 p95 p99
ttft itl tpot e2el
99.9 % of requests
5.0e-06
1e10
-33
0x7f8a3c000000
deadbeef
cafebabe
0123456789
ABCDEFGHIJKLMNOPQRSTUVWXYZ
abcdefghijklmnopqrstuvwxyz
AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
--------------------------------
================================
................................
Größe: 12, Maß: 3
モデル名
模型: 通义千问
Модель
"""
