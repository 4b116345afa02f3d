# shellcheck shell=bash
# What can be said about the sources without running the product.

rustc --version
cargo --version

check "rustfmt" 60 cargo fmt --all --check
check "clippy" 900 cargo clippy "${PACKAGES[@]}" --all-targets --locked -- -D warnings
check "rustdoc" 600 env RUSTDOCFLAGS="-D warnings" cargo doc "${PACKAGES[@]}" --no-deps --document-private-items --locked

# The rules of the house that no compiler knows: arrows between crates, error pages, manifests, links.
# Tests of the rules themselves run in `unit`.
check_tests "workspace rules" 300 count_cargo_test 13 cargo test "${PACKAGES[@]}" --test repository --locked

shell_scripts() {
    git ls-files --cached --others --exclude-standard -z | while IFS= read -r -d '' file; do
        [ -f "$file" ] || continue
        case $file in
            *.sh) printf '%s\0' "$file" ;;
            *) head -c 64 "$file" | head -n 1 | tr -d '\0' | grep -Eq '^#!.*\b(ba)?sh\b' && printf '%s\0' "$file" ;;
        esac
    done
}
if installed shellcheck; then
    mapfile -d '' scripts < <(shell_scripts)
    # SC2016 takes a backtick or a dollar in single quotes for a mistake; we quote names with backticks.
    check "shellcheck (${#scripts[@]} scripts)" 60 shellcheck --external-sources --exclude=SC2016 "${scripts[@]}"
fi

check "the gate's own test" 60 bash .ci/selftest.sh
