#!/bin/sh
# The compiler, asked for code that tells libFuzzer which way it went. As RUSTC_WORKSPACE_WRAPPER cargo calls it for the packages of this workspace
# alone, and keeps what comes of it beside what the compiler makes of them otherwise: what they depend on is neither instrumented nor
# compiled again. Macros and build scripts run in the compiler's or in a process of their own, where nobody listens.
#
#   rustc-with-coverage.sh RUSTC ARGUMENT…
set -eu
case " $* " in
    *" --crate-name build_script_"* | *" --crate-type proc-macro "*) exec "$@" ;;
esac
exec "$@" --cfg fuzzing -Clink-dead-code -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
