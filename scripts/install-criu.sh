#!/usr/bin/env bash
# Puts CRIU 4.2 on a Debian machine without touching the system: `scripts/install-criu.sh [--prefix DIR]`.
#
# Debian 12 has CRIU 3.17, which does not run on current kernels, and Debian 13 has 4.1, which crashes when it is driven by
# RPC with a configuration file. 4.2 is in Debian's unstable suite. Its libc must never replace the system's, so the whole
# closure of the package, libc and dynamic loader included, is unpacked below the prefix, and the program is
# told to use that loader and those libraries and no others.
#
# Does nothing if a CRIU of at least 4.2 already runs at the prefix. A new one is built beside the old one and swapped
# in when it has been seen to run, so an interrupted install leaves what was there.
set -euo pipefail

prefix=/opt/infinijup/criu
least=4.2
suite=sid

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
if new_enough "$have"; then
    say "$prefix/bin/criu is $have already"
    exit 0
fi
[ "$(id -u)" -eq 0 ] || fail "must be root to install below $prefix"
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

mkdir -p "$next/root" "$next/bin"
for package in "$work"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$next/root"
    dpkg-deb -W --showformat='${Package} ${Version}\n' "$package" >>"$next/packages.txt"
done

# Paths as they will be after the swap: they are written into the program.
root=$prefix/root
loader=$(cd "$next/root" && find . \( -name 'ld-linux-x86-64.so.2' -o -name 'ld-linux-aarch64.so.1' \) | head -n 1)
[ -n "$loader" ] || fail "found no dynamic loader among the packages"
loader=${loader#./}
libraries=
unpacked=
while read -r directory; do
    libraries+=${libraries:+:}$root/$directory
    unpacked+=${unpacked:+:}$next/root/$directory
done < <(cd "$next/root" && dirname "$loader" && find usr/lib -maxdepth 1 -type d \( -name '*-linux-gnu' -o -name lib \))
patchelf() { # ARGUMENT…
    "$next/root/$loader" --library-path "$unpacked" "$next/root/usr/bin/patchelf" "$@"
}
program=$(cd "$next/root" && find . -name criu -type f -perm -u+x -path '*bin/*' | head -n 1)
[ -n "$program" ] || fail "the package has no program named criu"
program=${program#./}
# DT_RPATH, unlike RUNPATH, also holds for what the libraries themselves need.
patchelf --force-rpath --set-rpath "$libraries" "$next/root/$program"
patchelf --set-interpreter "$root/$loader" "$next/root/$program"
ln -s "../root/$program" "$next/bin/criu"

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
