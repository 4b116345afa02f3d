#!/usr/bin/env bash
# The Debian package, for machines where an administrator installs infinijup for all:
# `scripts/build-deb.sh [--programs DIR] [--cargo-deb PROGRAM] [--fast] [--out DIR]` leaves it in dist/.
#
#   --programs DIR        pack the release programs that are in DIR already; without it cargo builds them
#   --cargo-deb PROGRAM   the cargo-deb to use; without it the one in the path, or one that is built from crates.io
#   --fast                compress less: for a package that is only tried
#
# What is in it is said in crates/cli/Cargo.toml: programs, manual pages, completions, the AppArmor profile, the units for each user's
# own daemon. Nothing in it runs as root or has a privilege.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=$PWD/dist
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
programs=
cargo_deb=$(command -v cargo-deb || true)
version=3.8.0
fast=()

say() { printf 'build-deb: %s\n' "$1" >&2; }
fail() {
    say "$1"
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --out) out=$(realpath -m "${2:?--out needs a directory}") && shift 2 ;;
        --programs) programs=$(realpath -m "${2:?--programs needs a directory}") && shift 2 ;;
        --cargo-deb) cargo_deb=$(realpath -m "${2:?--cargo-deb needs a program}") && shift 2 ;;
        --fast) fast=(--fast) && shift ;;
        -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit 0 ;;
        *) fail "unknown argument \`$1\`; \`build-deb.sh --help\` names those that there are" ;;
    esac
done
command -v dpkg-shlibdeps >/dev/null || fail "needs dpkg-shlibdeps (package dpkg-dev), which says what the programs depend on"
if [ -z "$cargo_deb" ]; then
    cargo install cargo-deb --version "$version" --locked --quiet --root "$target/cargo-deb"
    cargo_deb=$target/cargo-deb/bin/cargo-deb
fi

names=()
packages=()
while read -r name package; do
    names+=("$name")
    packages+=(--package "$package")
done < <(grep -v '^#' python/infinijup/programs.txt)
if [ -z "$programs" ]; then
    cargo build --release --locked --target-dir "$target" "${packages[@]}"
    programs=$target/release
fi

# cargo-deb takes what it packs from a target directory; this one has copies, stripped, and what the command says of itself.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
made=$work/release/deb
mkdir -p "$made/completions"
for name in "${names[@]}"; do
    [ -x "$programs/$name" ] || fail "there is no program $name in $programs"
    strip --strip-all -o "$work/release/$name" "$programs/$name"
    chmod 755 "$work/release/$name"
done
infinijup=$work/release/infinijup
"$infinijup" man --out "$made/man" >&2
gzip --best --no-name "$made"/man/*.1
"$infinijup" completions bash >"$made/completions/infinijup"
"$infinijup" completions zsh >"$made/completions/_infinijup"
"$infinijup" completions fish >"$made/completions/infinijup.fish"

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1577836800)
export SOURCE_DATE_EPOCH
mkdir -p "$out"
rm -f "$out"/infinijup_*.deb
CARGO_TARGET_DIR=$work "$cargo_deb" deb --quiet "${fast[@]}" --package cli --no-build --no-strip --output "$out"
for file in "$out"/infinijup_*.deb; do
    say "$file ($(stat -c %s "$file") bytes)"
done
