#!/usr/bin/env bash
# The Python of `bench/run peers`: `scripts/peers-python.sh [--prefix DIR]` makes a virtual environment with the exact packages of
# bench/requirements-peers.txt, by default /opt/infinijup/peers-venv. About 500 MB.
#
# Does nothing if the environment was made from the same requirements and still runs.
set -euo pipefail

case ${1:-} in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit 0 ;;
esac
exec "$(dirname "${BASH_SOURCE[0]}")/test-python.sh" --prefix /opt/infinijup/peers-venv \
    --requirements bench/requirements-peers.txt --imports 'dill, kishu, matplotlib, sklearn' "$@"
