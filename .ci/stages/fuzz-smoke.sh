# shellcheck shell=bash
# Every fuzz target for ten seconds: not a search for bugs, but proof that each target builds, runs and survives its
# corpus. The stable compiler with RUSTC_BOOTSTRAP=1 accepts the sanitizer flags, so no nightly is needed.

fuzz_targets() {
    local target cargo_fuzz corpus
    if ! need_apt g++; then
        skip "fuzz targets" "libFuzzer needs g++, which could not be installed"
        return
    fi
    if ! cargo_fuzz=$(need_cargo_tool cargo-fuzz 0.13.2); then
        skip "fuzz targets" "cargo-fuzz could not be built"
        return
    fi
    check "fuzz targets build" 900 env RUSTC_BOOTSTRAP=1 "$cargo_fuzz" build || return
    for target in $("$cargo_fuzz" list); do
        # New inputs go to the first directory, so that the corpus in the repository stays as it is.
        corpus=("$SCRATCH/corpus-$target")
        mkdir "${corpus[0]}"
        [ -d "fuzz/corpus/$target" ] && corpus+=("fuzz/corpus/$target")
        check "fuzz $target" 120 env RUSTC_BOOTSTRAP=1 "$cargo_fuzz" run "$target" "${corpus[@]}" -- \
            -max_total_time=10 -rss_limit_mb=2048 -print_final_stats=1
    done
}

if [ -f fuzz/Cargo.toml ]; then
    fuzz_targets
else
    skip "fuzz targets" "there is no fuzz/ yet"
fi
