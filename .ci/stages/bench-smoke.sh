# shellcheck shell=bash
# Every benchmark on small data: the commands behind the published figures still run and print what they promise.
# Speed is not judged here, a shared machine is no place to measure; counts (bytes that a change costs) are.

if installed rivals && need_wheel "bench/run --smoke"; then
    check "bench/run --smoke" 1200 env INFINIJUP_PROGRAMS="$(realpath "$PROGRAMS")" bench/run --smoke
fi
