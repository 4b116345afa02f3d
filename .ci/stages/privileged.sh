# shellcheck shell=bash
# Live processes: real CRIU, real kernels, as root and as throw-away users. The tests of the engines that skip themselves
# without root and CRIU must run here, then the whole product is tried from outside in tests/privileged.

privileged() {
    local packages
    need_programs "sessions of live processes" || return
    mapfile -t packages < <(product_packages)
    check "tests build" 900 cargo build "${packages[@]}" --bins --tests --locked || return
    # Begun only if `endurance` comes and waits for it. .ci/run says what was chosen.
    # shellcheck disable=SC2154
    contains endurance "${chosen[@]}" && begin_lane
    live_tests "engines as root" "$LIVE_TESTS" 1 "${packages[@]}"
    end_to_end "end to end" /opt/infinijup/test-venv/bin/python 30 . --deselect "$THOUSAND_CYCLES" --ignore-glob='test_gpu_*'
}

privileged
