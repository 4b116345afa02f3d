# shellcheck shell=bash
# Unit and integration tests that need neither root nor a special machine, and the examples in the documentation.
# The rules of the house have run in `lint`; kills and full disks have a stage of their own. Tests that skip themselves where a program is
# missing find it here, as root; then a skip is a failure.

elsewhere="($LIVE_TESTS) or ($GPU_TESTS) or binary_id(workspace-checks::repository)"
elsewhere+=" or binary_id(torture::kill) or binary_id(torture::damage) or binary_id(torture::full_disk)"

if [ "$(id -u)" -eq 0 ] && installed redis sessions; then
    export PATH=$TOOLS/bin:$PATH INFINIJUP_TESTS_REQUIRED=1 INFINIJUP_CRIU=/opt/infinijup/criu/bin/criu
fi
if build; then
    rust_tests "unit tests" 1520 "not ($elsewhere)" "${PACKAGES[@]}" --exclude torture --lib --bins --tests
    check_tests "documentation examples" 600 count_cargo_test 0 cargo test "${PACKAGES[@]}" --doc --no-fail-fast --locked
fi
