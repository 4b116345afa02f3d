#!/usr/bin/env bash
# The Python of the GPU tests: `scripts/gpu-python.sh [--prefix DIR]` makes a virtual environment with the exact packages of
# tests/sessions/requirements-gpu.txt, by default /opt/infinijup/gpu-venv. About 700 MB.
#
# Does nothing if the environment was made from the same requirements and still runs.
set -euo pipefail

case ${1:-} in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit 0 ;;
esac
exec "$(dirname "${BASH_SOURCE[0]}")/test-python.sh" --prefix /opt/infinijup/gpu-venv \
    --requirements tests/sessions/requirements-gpu.txt \
    --imports 'cuda.bindings.driver, cuda.core, gpustat, numba.cuda, pynvml' "$@"
