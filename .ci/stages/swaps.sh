# shellcheck shell=bash
# Kernels that are exchanged under clients that stay: pages of JupyterLab in Chromium (tests/e2e), and Jupyter's other ways to a kernel.

swaps() {
    need_programs "kernels under open pages" || return 0
    installed gpu_python || return 0
    need_wheel "kernels under open pages" || return 0
    export INFINIJUP_ARTEFACTS=${INFINIJUP_ARTEFACTS:-$PWD/target/e2e}
    outside_tests "kernels under open pages" tests/e2e "$LAB/bin/python" 26 "${UNDER_OPEN_PAGES[@]}"
    end_to_end "kernels of Jupyter" "$LAB/bin/python" 34 "${KERNELS_OF_JUPYTER[@]}"
}

swaps
