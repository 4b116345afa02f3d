# shellcheck shell=bash
# Every benchmark on small data: the commands behind the published figures still run and print what they promise.
# Speed is not judged here, a shared machine is no place to measure; counts (bytes that a change costs) are.

if need_live_packages && need_wheel "bench/run --smoke"; then
    check "bench/run --smoke" 1200 bench/run --smoke
else
    skip "bench/run --smoke" "Debian packages that it needs could not be installed"
fi
