# shellcheck shell=bash
# The GPU, on the stand-in driver: its crates, the layouts of NVIDIA's own headers, NVIDIA's own Python clients, and the whole
# product with sessions that hold VRAM.

gpu() {
    local packages files
    need_programs "sessions with a GPU" || return
    check "Python of the GPU's clients is installed" 900 scripts/gpu-python.sh || return
    mapfile -t packages < <(product_packages)
    # With --lib: a library that only tests ask for is not put where programs look for it.
    check "tests build" 900 cargo build "${packages[@]}" --lib --bins --tests --locked || return
    live_tests "GPU engines on the stand-in" "$GPU_TESTS" 10 "${packages[@]}"
    check_tests "Python package" 300 count_pytest 5 env PYTHONDONTWRITEBYTECODE=1 \
        /opt/infinijup/gpu-venv/bin/python -m pytest -q python/infinijup/tests
    mapfile -t files < <(cd tests/privileged && printf '%s\n' test_gpu_*.py)
    end_to_end "end to end with a GPU" /opt/infinijup/gpu-venv/bin/python 200 "${files[@]}"
}

gpu
