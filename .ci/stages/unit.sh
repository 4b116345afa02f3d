# shellcheck shell=bash
# Unit and integration tests that need neither root nor a special machine, and the examples in the documentation.
# workspace-checks has run in `lint`; packages under tests/ have stages of their own.

mapfile -t packages < <(product_packages)

if cargo nextest --version >/dev/null 2>&1; then
    check_tests "unit tests" 900 count_nextest 1 \
        cargo nextest run "${packages[@]}" --profile ci --locked -E "not ($LIVE_TESTS) and not ($GPU_TESTS)"
else
    echo "cargo-nextest is not installed: the tests run under cargo test, without a time limit for each"
    check_tests "unit tests" 900 count_cargo_test 1 \
        cargo test "${packages[@]}" --lib --bins --tests --no-fail-fast --locked
fi

check_tests "documentation examples" 600 count_cargo_test 0 \
    cargo test "${packages[@]}" --doc --no-fail-fast --locked
