#!/usr/bin/env bash
# Puts CRIU 4.2 on a Debian machine without touching the system: `scripts/install-criu.sh [--prefix DIR]`.
#
# Debian 12 has CRIU 3.17, which does not run on current kernels, and Debian 13 has 4.1, which crashes when it is driven by
# RPC with a configuration file. 4.2 is in Debian's unstable suite. Its libc must never replace the system's, so the program, the
# libraries that it needs, libc and the dynamic loader lie together below the prefix, which can be moved to another place:
#
#   bin/criu                  starts the program by its own loader (python/infinijup-criu/launcher.sh)
#   lib/infinijup-criu/       program, loader and libraries, found by each other
#   share/doc/infinijup-criu/ packages.txt, and the copyright of each package that a file is from
#
# The same files are the wheel `infinijup-criu` (scripts/build-criu-wheel.sh).
#
# Does nothing if a CRIU of at least 4.2 already runs at the prefix. A new one is built beside the old one and swapped
# in when it has been seen to run, so an interrupted install leaves what was there.
set -euo pipefail

prefix=/opt/infinijup/criu
least=4.2
suite=sid
launcher=$(dirname "${BASH_SOURCE[0]}")/../python/infinijup-criu/launcher.sh

say() { printf 'install-criu: %s\n' "$1" >&2; }
fail() {
    say "$1"
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2:?--prefix needs a directory} && shift 2 ;;
        --prefix=*) prefix=${1#*=} && shift ;;
        -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit 0 ;;
        *) fail "unknown argument \`$1\`; usage: install-criu.sh [--prefix DIR]" ;;
    esac
done
case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac

version_of() { # PROGRAM
    "$1" --version 2>/dev/null | sed -n 's/^Version: *//p'
}
new_enough() { # VERSION
    [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$least" "$1" | sort -V | head -n 1)" = "$least" ]
}

have=$(version_of "$prefix/bin/criu" || true)
# One from before it could be moved is replaced.
if new_enough "$have" && [ -x "$prefix/lib/infinijup-criu/criu" ]; then
    say "$prefix/bin/criu is $have already"
    exit 0
fi
if ! mkdir -p "$(dirname "$prefix")" || [ ! -w "$(dirname "$prefix")" ]; then
    fail "$(id -un) may not write to $(dirname "$prefix")"
fi
for tool in apt-get dpkg-deb; do
    command -v "$tool" >/dev/null || fail "needs $tool: this installer knows Debian only; see https://criu.org/Installation"
done

# The mirror that this machine uses for its own release also has the other suites.
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mirror=$(apt-get --print-uris update 2>/dev/null | sed -n "s#^'\([^']*\)/dists/$codename/InRelease'.*#\1#p" | head -n 1)
[ -n "$mirror" ] || fail "apt has no source for $codename, so there is no mirror to ask"

work=$(mktemp -d)
next=$prefix.next.$$
trap 'rm -rf "$work" "$next"' EXIT
chmod 755 "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/preferences.d"
# An empty package database: apt then hands over the full closure, also what the system has in another version.
: >"$work/status"
printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$mirror" "$suite" >"$work/sources.list"

private_apt() { # ARGUMENT…
    # Signatures are checked. The one-week limit of the unstable suite is not: caching mirrors are often older.
    apt-get -qq -y \
        -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts="$work/preferences.d" \
        -o Dir::State="$work" -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" \
        -o Dir::Cache="$work/cache" -o Acquire::Languages=none -o Acquire::Retries=3 \
        -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@" >&2
}
private_apt update || fail "cannot read the package lists of $suite from $mirror"
private_apt install --no-install-recommends --download-only criu patchelf || fail "$mirror did not deliver criu from $suite"

root=$work/root
docs=$next/share/doc/infinijup-criu
home=$next/lib/infinijup-criu
mkdir -p "$root" "$next/bin" "$home" "$docs/copyright"
for package in "$work"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$root"
    dpkg-deb -c "$package" | sed -n 's#^-.* \./##p' | sed "s#\$# $(dpkg-deb -f "$package" Package)#" >>"$work/files"
    dpkg-deb -W --showformat='${Package} ${Version}\n' "$package" >>"$work/versions"
done

find_one() { # WHAT FIND-ARGUMENT…
    local what=$1 found
    shift
    found=$(find "$root" -type f "$@" | head -n 1)
    [ -n "$found" ] || fail "found no $what among the packages"
    printf '%s\n' "$found"
}
loader=$(find_one "dynamic loader" -name 'ld-linux-*.so.*')
program=$(find_one "program named criu" -name criu -path '*bin/*' -perm -u+x)
libraries=$(dirname "$loader"):$root/usr/lib

# The loader says which libraries the program needs. None may be one of the machine's.
needed=$("$loader" --library-path "$libraries" --list "$program" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p') ||
    fail "the packages lack a library that criu needs"
files=("$program" "$loader")
while read -r library; do
    case $(realpath "$library") in
        "$loader") ;;
        "$(realpath "$root")"/*) files+=("$library") ;;
        *) fail "criu would use the machine's $library" ;;
    esac
done <<<"$needed"
for file in "${files[@]}"; do
    # Under the name that it is looked for by, without the link to a version's name: archives of Python hold no links.
    install -m 755 "$file" "$home/$(basename "$file")"
    real=$(realpath "$file")
    sed -n "s#^${real#"$(realpath "$root")"/} ##p" "$work/files" >>"$work/used"
done
# DT_RPATH, unlike RUNPATH, also holds for what the libraries themselves need, and goes before LD_LIBRARY_PATH.
"$loader" --library-path "$libraries" "$root/usr/bin/patchelf" --force-rpath --set-rpath '$ORIGIN' "$home/criu"
install -m 755 "$launcher" "$next/bin/criu"

# Whoever passes these files on passes on their licences, and says where the sources are.
{
    echo "# Debian packages that these files are from. The sources of each: https://snapshot.debian.org/binary/NAME/VERSION/"
    sort -u "$work/used" | join - <(sort "$work/versions")
} >"$docs/packages.txt"
while read -r package; do
    # A package may use the directory of the one that it was built with (libgcc-s1 does).
    install -m 644 "$root/usr/share/doc/$package/copyright" "$docs/copyright/$package"
done < <(sort -u "$work/used")
# The texts that those refer to.
cp -L /usr/share/common-licenses/{Apache-2.0,BSD,GPL-1,GPL-2,GPL-3,LGPL-2,LGPL-2.1,LGPL-3} "$docs/copyright/"

old=
if [ -e "$prefix" ]; then
    old=$prefix.old.$$
    mv "$prefix" "$old"
fi
mkdir -p "$(dirname "$prefix")"
mv "$next" "$prefix"
have=$(version_of "$prefix/bin/criu" || true)
if ! new_enough "$have"; then
    rm -rf "$prefix"
    [ -z "$old" ] || mv "$old" "$prefix"
    fail "what $suite delivered does not run or is older than $least (\`$have\`)"
fi
[ -z "$old" ] || rm -rf "$old"
say "$prefix/bin/criu is $have"
