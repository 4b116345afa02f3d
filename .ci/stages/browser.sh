# shellcheck shell=bash
# The product as people touch it: JupyterLab in Chromium, the daemon, CRIU, the stand-in for GPUs (tests/e2e). Pictures of what the
# pages looked like are kept in target/e2e, or where INFINIJUP_ARTEFACTS says.

browser() {
    need_programs "JupyterLab in a browser" || return 0
    installed gpu_python || return 0
    need_wheel "JupyterLab in a browser" || return 0
    export INFINIJUP_ARTEFACTS=${INFINIJUP_ARTEFACTS:-$PWD/target/e2e}
    outside_tests "JupyterLab in a browser" tests/e2e "$LAB/bin/python" 40 . "${UNDER_OPEN_PAGES[@]/#/--ignore=}"
    printf 'screenshots: %s\n' "$INFINIJUP_ARTEFACTS"
}

browser
