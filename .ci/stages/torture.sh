# shellcheck shell=bash
# Kills and full disks: a store that is interrupted at any instant holds the old state or the new one.

if packages_under tests | grep -qx torture; then
    check_tests "torture" 600 count_cargo_test 1 cargo test --release -p torture --locked
else
    skip "torture" "the package tests/torture is not in the workspace yet"
fi
