# shellcheck shell=bash
# Every fuzz target for a few seconds, two at a time: not a search for bugs, but proof that each target runs and survives its corpus. They
# are one program. Only coverage is instrumented, with flags of the stable compiler, and only in our crates: these have no unsafe code that a
# sanitizer could watch, and what they depend on is the same as in every other build. For a real search use cargo-fuzz, as CONTRIBUTING.md says.

fuzz_program=$PROGRAMS/all

# Of the whole workspace, as every build is, or dependencies would have other features and be compiled again.
build_fuzz_targets() {
    check "fuzz targets build" 900 env RUSTC_WORKSPACE_WRAPPER="$PWD/fuzz/rustc-with-coverage.sh" \
        cargo build --workspace --bin all --locked
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
    for source in fuzz/src/*.rs; do
        [ "$source" != fuzz/src/main.rs ] || continue
        if ((number++ % 2)); then one+=("$(basename "$source" .rs)"); else other+=("$(basename "$source" .rs)"); fi
    done
    # A target keeps one core busy.
    begin_beside fuzz fuzz "${other[@]}"
    fuzz "${one[@]}"
    finish_beside fuzz
}

fuzz_targets
