#!/usr/bin/env bash
# The pictures of the documents: `scripts/pictures.sh` films the notebook of `infinijup demo` in JupyterLab and writes docs/pictures anew. Needs root,
# as the browser tests do, the programs in target/debug or where INFINIJUP_PROGRAMS says, and what scripts/lab-python.sh installs, with the wheel.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export INFINIJUP_PICTURES=$PWD/docs/pictures INFINIJUP_TESTS_REQUIRED=1 PYTHONDONTWRITEBYTECODE=1
cd tests/e2e
/opt/infinijup/lab-venv/bin/python -m pytest -q pictures.py
ls -l "$INFINIJUP_PICTURES"
