# shellcheck shell=bash
# Every fuzz target for a few seconds: not a search for bugs, but proof that each target builds, runs and survives its
# corpus. Only coverage is instrumented, with flags of the stable compiler: our crates have no unsafe code that a
# sanitizer could watch, and building SQLite and zstd with one takes minutes. For a real search use cargo-fuzz, as
# CONTRIBUTING.md says.

fuzz_triple=x86_64-unknown-linux-gnu

fuzz_targets() {
    local source target corpus
    local flags="--cfg fuzzing -Clink-dead-code -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
    flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
    flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
    if ! need_apt g++; then
        skip "fuzz targets" "libFuzzer needs g++, which could not be installed"
        return
    fi
    check "fuzz targets build" 900 env RUSTFLAGS="$flags" cargo build --manifest-path fuzz/Cargo.toml --release --locked \
        --bins --target "$fuzz_triple" --target-dir target/fuzz || return
    for source in fuzz/fuzz_targets/*.rs; do
        target=$(basename "$source" .rs)
        # New inputs go to the first directory, so that the corpus in the repository stays as it is.
        corpus=("$SCRATCH/corpus-$target")
        mkdir "${corpus[0]}"
        [ -d "fuzz/corpus/$target" ] && corpus+=("fuzz/corpus/$target")
        check "fuzz $target" 60 "target/fuzz/$fuzz_triple/release/$target" "${corpus[@]}" \
            -max_total_time=6 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "-artifact_prefix=$SCRATCH/"
    done
}

fuzz_targets
