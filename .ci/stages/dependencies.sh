# shellcheck shell=bash
# What we are built of: licences, sources, and what is banned. Near the end, because the tool for it takes minutes to compile and does so
# beside the stages before, when they leave a core idle.

if installed auditor; then
    check "cargo deny" 120 "$(need_cargo_tool cargo-deny "$CARGO_DENY")" --log-level error check --hide-inclusion-graph bans licenses sources
fi
skip_known "cargo deny advisories" "its database is a git repository that the build machines cannot reach"
