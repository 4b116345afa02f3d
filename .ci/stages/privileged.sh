# shellcheck shell=bash
# Live processes: real CRIU, real kernels, as root and as throw-away users. The tests of the engines that skip themselves
# without root and CRIU must run here, then the whole product is tried from outside in tests/privileged.

engine_tests() { # CARGO-ARGUMENT…
    export INFINIJUP_TESTS_REQUIRED=1 INFINIJUP_CRIU=/opt/infinijup/criu/bin/criu
    if cargo nextest --version >/dev/null 2>&1; then
        check_tests "engines as root" 600 count_nextest 1 cargo nextest run "$@" --profile ci --locked \
            -E "$LIVE_TESTS"
    else
        check_tests "engines as root" 600 count_cargo_test 1 cargo test -p checkpoint-criu -p sandbox -p lifecycle \
            --lib --test '*' --no-fail-fast --locked
    fi
}

# A test that hangs is ended by its own time limit; the one here is for a harness that hangs.
end_to_end() { # NAME LEAST PYTEST-ARGUMENT…
    local name=$1 least=$2 programs
    programs=$(realpath "${CARGO_TARGET_DIR:-target}/release")
    shift 2
    check_tests "$name" 2400 count_pytest "$least" env -C tests/privileged INFINIJUP_TESTS_REQUIRED=1 \
        INFINIJUP_PROGRAMS="$programs" INFINIJUP_CRIU=/opt/infinijup/criu/bin/criu PYTHONDONTWRITEBYTECODE=1 \
        /opt/infinijup/test-venv/bin/python -m pytest "$@"
}

privileged() {
    local packages lane thousand=test_leaks.py::test_a_small_kernel
    if [ "$(id -u)" -ne 0 ]; then
        skip "sessions of live processes" "they need root"
        return
    fi
    if ! need_live_packages; then
        skip "sessions of live processes" "Debian packages that they need could not be installed"
        return
    fi
    check "CRIU 4.2 is installed" 300 scripts/install-criu.sh || return
    check "Python of the tests is installed" 600 scripts/test-python.sh || return
    mapfile -t packages < <(product_packages)
    # Optimised, as the benchmarks have them: a thousand cycles of anything else take an hour.
    check "programs build" 900 cargo build --release -p infinijupd -p cli -p sandbox --bins --locked || return
    check "tests build" 900 cargo build "${packages[@]}" --bins --tests --locked || return
    engine_tests "${packages[@]}"
    # The thousand cycles take long and wait much, so they run beside the others.
    end_to_end "end to end, a thousand cycles" 1 "$thousand" >"$SCRATCH/lane.log" 2>&1 &
    lane=$!
    end_to_end "end to end" 30 . --deselect "$thousand"
    wait "$lane"
    cat "$SCRATCH/lane.log"
}

privileged
