# shellcheck shell=bash
# Packages of another Debian suite, unpacked in a place of their own: nothing of them is installed, and nothing of the system is changed.
# Sourced by scripts/install-criu.sh and scripts/install-containers.sh, which say `prefix=DIR` and then:
#
#   read_prefix "$@"              --prefix DIR, --help
#   unpack_packages SUITE NAME…   the packages with all that they need, libc included, in $work/root; $work/files says which file is of
#                                 which package, $work/versions which version each has
#   swap_in CHECK                 what was built in $next becomes $prefix if the command CHECK then says that it runs
#
# $work and $next are removed at the end.

me=$(basename "$0" .sh)

say() { printf '%s: %s\n' "$me" "$1" >&2; }
fail() {
    say "$1"
    exit 1
}

read_prefix() { # ARGUMENT…
    while [ $# -gt 0 ]; do
        case $1 in
            --prefix) prefix=${2:?--prefix needs a directory} && shift 2 ;;
            --prefix=*) prefix=${1#*=} && shift ;;
            -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" && exit 0 ;;
            *) fail "unknown argument \`$1\`; usage: $me.sh [--prefix DIR]" ;;
        esac
    done
    case $prefix in
        /*) ;;
        *) prefix=$PWD/$prefix ;;
    esac
}

# Whether a version is there and at least another one.
new_enough() { # LEAST VERSION
    [ -n "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

unpack_packages() { # SUITE PACKAGE…
    local suite=$1 tool codename mirror package
    shift
    if ! mkdir -p "$(dirname "$prefix")" || [ ! -w "$(dirname "$prefix")" ]; then
        fail "$(id -un) may not write to $(dirname "$prefix")"
    fi
    for tool in apt-get dpkg-deb; do
        command -v "$tool" >/dev/null || fail "needs $tool: this installer knows Debian only"
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
    private_apt update || fail "cannot read the package lists of $suite from $mirror"
    private_apt install --no-install-recommends --download-only "$@" || fail "$mirror did not deliver $* from $suite"

    root=$work/root
    mkdir -p "$root"
    for package in "$work"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$root"
        dpkg-deb -c "$package" | sed -n 's#^-.* \./##p' | sed "s#\$# $(dpkg-deb -f "$package" Package)#" >>"$work/files"
        dpkg-deb -W --showformat='${Package} ${Version}\n' "$package" >>"$work/versions"
    done
    loader=$(find_one "dynamic loader" -name 'ld-linux-*.so.*')
}

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

find_one() { # WHAT FIND-ARGUMENT…
    local what=$1 found
    shift
    found=$(find "$root" -type f "$@" | head -n 1)
    [ -n "$found" ] || fail "found no $what among the packages"
    printf '%s\n' "$found"
}

# patchelf needs the new libc itself.
patchelf() { # ARGUMENT…
    "$loader" --library-path "$(dirname "$loader"):$root/usr/lib" "$root/usr/bin/patchelf" "$@"
}

# What is there stays until the new one has been seen to run, so an interrupted install leaves what was there.
swap_in() { # CHECK
    local old=
    if [ -e "$prefix" ]; then
        old=$prefix.old.$$
        mv -T "$prefix" "$old"
    fi
    mv -T "$next" "$prefix"
    if ! "$1"; then
        rm -rf "$prefix"
        [ -z "$old" ] || mv -T "$old" "$prefix"
        fail "what was delivered does not run or is too old"
    fi
    [ -z "$old" ] || rm -rf "$old"
}
