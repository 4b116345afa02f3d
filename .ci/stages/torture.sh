# shellcheck shell=bash
# Kills and full disks: a store that is interrupted at any instant holds the old state or the new one. What else tests/torture has runs
# in `unit`.

check_tests "torture" 900 count_cargo_test 7 cargo test "${PACKAGES[@]}" --test kill --test damage --test full_disk --locked
