# shellcheck shell=bash
# Every benchmark on small data: the commands behind the published figures still run and print what they promise.
# Speed is not judged here, a shared machine is no place to measure; counts (bytes that a change costs) are.

if [ -x bench/run ]; then
    programs=${CARGO_TARGET_DIR:-target}/debug
    mapfile -t packages < <(product_packages)
    check "programs of the benchmarks build" 900 cargo build "${packages[@]}" --bins --tests --locked &&
        check "bench/run --smoke" 600 env INFINIJUP_PROGRAMS="$programs" bench/run --smoke
else
    skip "bench/run --smoke" "there is no bench/run yet"
fi
