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

privileged() {
    local packages programs=${CARGO_TARGET_DIR:-target}/debug
    if [ "$(id -u)" -ne 0 ]; then
        skip "sessions of live processes" "they need root"
        return
    fi
    if ! need_apt python3 python3-venv iproute2 passt btrfs-progs e2fsprogs util-linux passwd; then
        skip "sessions of live processes" "Debian packages that they need could not be installed"
        return
    fi
    check "CRIU 4.2 is installed" 300 scripts/install-criu.sh || return
    check "Python of the tests is installed" 600 scripts/test-python.sh || return
    mapfile -t packages < <(product_packages)
    check "programs build" 900 cargo build "${packages[@]}" --bins --tests --locked || return
    engine_tests "${packages[@]}"
    # A test that hangs is ended by its own time limit; this one is for a harness that hangs.
    check_tests "end to end" 1200 count_pytest 30 env INFINIJUP_TESTS_REQUIRED=1 INFINIJUP_PROGRAMS="$programs" \
        INFINIJUP_CRIU=/opt/infinijup/criu/bin/criu PYTHONDONTWRITEBYTECODE=1 \
        /opt/infinijup/test-venv/bin/python -m pytest tests/privileged
}

privileged
