# shellcheck shell=bash
# Every benchmark on small data: the commands behind the published figures still run and print what they promise.
# Counts (bytes that a change costs) are held to their bars; speed to loose ones, because a shared machine is no place to measure.

if installed rivals containers && need_wheel "bench/run --smoke"; then
    check "bench/run --smoke" 1200 env INFINIJUP_PROGRAMS="$(realpath "$PROGRAMS")" bench/run --smoke
fi
