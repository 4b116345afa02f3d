#!/usr/bin/env bash
# Tests by nextest. Its summary does not tell tests that are ignored from those of other filters, so these are named before it:
# `ignored: PACKAGE::BINARY TEST`.
#
#   nextest.sh FILTER
set -euo pipefail
# As in .ci/lib.sh.
packages=(--workspace --exclude fuzz)
cargo nextest list "${packages[@]}" --profile ci --locked --run-ignored only --message-format oneline -E "$1" | sed 's/^/ignored: /'
exec cargo nextest run "${packages[@]}" --profile ci --locked -E "$1"
