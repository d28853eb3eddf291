#!/usr/bin/env bash
# Ours and transformers' UPerNet-Swin on one GPU in under 8 minutes: a table here, the figures in runs/gpu.json.
# Builds and installs nothing; needs torch and transformers alone. `--help` tells the options.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHONPATH=. exec "${PYTHON:-python3}" benchmarks/gpu.py "$@"
