# shellcheck shell=bash
# The GPU, on the stand-in driver: its crates, the layouts of NVIDIA's own headers, NVIDIA's own Python clients, and the whole
# product with sessions that hold VRAM.

gpu() {
    local files
    need_programs "sessions with a GPU" || return 0
    installed gpu_python || return 0
    live_tests "GPU engines on the stand-in" "$GPU_TESTS" 136
    # Those three need httpx, which comes with JupyterLab, and run in `jupyter`.
    check_tests "Python package" 300 count_pytest 245 env PYTHONDONTWRITEBYTECODE=1 \
        /opt/infinijup/gpu-venv/bin/python -m pytest -q python/infinijup/tests \
        --ignore-glob='*/test_daemon.py' --ignore-glob='*/test_launch.py' --ignore-glob='*/tests/test_provisioner.py'
    mapfile -t files < <(cd tests/sessions && printf '%s\n' test_gpu_*.py)
    end_to_end "end to end with a GPU" /opt/infinijup/gpu-venv/bin/python 304 "${files[@]}"
}

gpu
