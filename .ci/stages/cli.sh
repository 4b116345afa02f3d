# shellcheck shell=bash
# The command line as a user meets it: the built `infinijup`, its completions and its manual pages. Its tests run in
# `unit`; here is what needs the program itself.

infinijup=${CARGO_TARGET_DIR:-target}/debug/infinijup

if packages_under crates | grep -qx cli; then
    if check "infinijup builds" 600 cargo build -p cli --locked; then
        check "infinijup --version" 10 "$infinijup" --version
        check "infinijup --help" 10 "$infinijup" --help
        for shell in bash zsh fish; do
            check "completions for $shell" 10 sh -c '"$1" completions "$2" | grep -q rotate-keys' sh "$infinijup" "$shell"
        done
        check "manual pages" 10 "$infinijup" man --out "$SCRATCH/man"
        check "manual page of gc" 10 grep -q '^.SH NAME' "$SCRATCH/man/infinijup-store-gc.1"
    fi
else
    skip "command line" "the package crates/cli is not in the workspace yet"
fi
