# shellcheck shell=bash
# Every fuzz target for a few seconds, two at a time: not a search for bugs, but proof that each target runs and survives its corpus. They
# are one program. Only coverage is instrumented, with flags of the stable compiler: our crates have no unsafe code that a
# sanitizer could watch, and building SQLite and zstd with one takes minutes. For a real search use cargo-fuzz, as
# CONTRIBUTING.md says.

fuzz_triple=x86_64-unknown-linux-gnu
fuzz_program=${CARGO_TARGET_DIR:-target}/$fuzz_triple/release/all

# In the target directory of everything else: what runs on the host, macros and build scripts, is there already.
build_fuzz_targets() {
    local flags="--cfg fuzzing -Clink-dead-code -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
    flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
    flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
    check "fuzz targets build" 900 env RUSTFLAGS="$flags" cargo build --manifest-path fuzz/Cargo.toml --release --locked \
        --bins --target "$fuzz_triple" --target-dir "${CARGO_TARGET_DIR:-target}"
}

fuzz() { # TARGET…
    local target corpus
    for target; do
        # New inputs go to the first directory, so that the corpus in the repository stays as it is.
        corpus=("$SCRATCH/corpus-$target")
        mkdir "${corpus[0]}"
        [ -d "fuzz/corpus/$target" ] && corpus+=("fuzz/corpus/$target")
        check "fuzz $target" $((FUZZ_SECONDS + 54)) env FUZZ_TARGET="$target" "$fuzz_program" "${corpus[@]}" -max_total_time="$FUZZ_SECONDS" \
            -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "-artifact_prefix=$SCRATCH/"
    done
}

fuzz_targets() {
    local source number=0 one=() other=()
    installed fuzzer && build_fuzz_targets || return 0
    for source in fuzz/fuzz_targets/*.rs; do
        [ "$source" != fuzz/fuzz_targets/main.rs ] || continue
        if ((number++ % 2)); then one+=("$(basename "$source" .rs)"); else other+=("$(basename "$source" .rs)"); fi
    done
    # A target keeps one core busy.
    begin_beside fuzz fuzz "${other[@]}"
    fuzz "${one[@]}"
    finish_beside fuzz
}

fuzz_targets
