# shellcheck shell=bash
# Kills and full disks: a store that is interrupted at any instant holds the old state or the new one.

check_tests "torture" 900 count_cargo_test 1 cargo test --release -p torture --locked
