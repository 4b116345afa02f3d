# shellcheck shell=bash
# Live processes: real CRIU, real kernels, as root and as throw-away users. The tests of the engines that skip themselves
# without root and CRIU must run here, then the whole product is tried from outside in tests/sessions.

sessions() {
    need_programs "sessions of live processes" || return 0
    live_tests "engines" "$LIVE_TESTS" 120
    # They need JupyterLab's Python, and run in `swaps`; those with a GPU run in `gpu`, those with hundreds of cycles in `endurance`.
    local elsewhere=("${KERNELS_OF_JUPYTER[@]/#/--ignore=}" --ignore-glob='test_gpu_*' "${MANY_CYCLES[@]/#/--deselect=}")
    if [ -n "${INFINIJUP_UPGRADE_FROM:-}" ]; then
        need_wheel "an upgrade" || return 0
        export INFINIJUP_LAB=$LAB
    else
        # Builds a second version of everything.
        elsewhere+=(--ignore=test_upgrade.py)
    fi
    end_to_end "end to end" /opt/infinijup/test-venv/bin/python 274 . "${elsewhere[@]}"
}

sessions
