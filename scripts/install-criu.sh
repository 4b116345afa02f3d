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

# shellcheck source=scripts/debian-packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/debian-packages.sh"

prefix=/opt/infinijup/criu
least=4.2
launcher=$(dirname "${BASH_SOURCE[0]}")/../python/infinijup-criu/launcher.sh
read_prefix "$@"

version_of() { # PROGRAM
    "$1" --version 2>/dev/null | sed -n 's/^Version: *//p'
}
runs() {
    have=$(version_of "$prefix/bin/criu" || true)
    new_enough "$least" "$have"
}

# One from before it could be moved is replaced.
if runs && [ -x "$prefix/lib/infinijup-criu/criu" ]; then
    say "$prefix/bin/criu is $have already"
    exit 0
fi
unpack_packages sid criu patchelf

docs=$next/share/doc/infinijup-criu
home=$next/lib/infinijup-criu
mkdir -p "$next/bin" "$home" "$docs/copyright"
program=$(find_one "program named criu" -name criu -path '*bin/*' -perm -u+x)

# The loader says which libraries the program needs. None may be one of the machine's.
needed=$("$loader" --library-path "$(dirname "$loader"):$root/usr/lib" --list "$program" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p') ||
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
patchelf --force-rpath --set-rpath '$ORIGIN' "$home/criu"
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

swap_in runs
say "$prefix/bin/criu is $have"
