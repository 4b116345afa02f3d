# shellcheck shell=bash
# The command line as a user meets it: the built `infinijup`, its completions and its manual pages. Its tests run in
# `unit`; here is what needs the program itself.

infinijup=${CARGO_TARGET_DIR:-target}/debug/infinijup

if packages_under crates | grep -qx cli; then
    if check "infinijup builds" 600 cargo build -p cli --locked; then
        check "infinijup --version" 10 "$infinijup" --version
        check "infinijup --help" 10 "$infinijup" --help
        # Checks of the generated completions and manual pages go here.
    fi
else
    skip "command line" "the package crates/cli is not in the workspace yet"
fi
