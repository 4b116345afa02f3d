#!/usr/bin/env bash
# Puts container runtimes on a Debian machine without touching the system: `scripts/install-containers.sh [--prefix DIR]`.
#
# runc, crun, containerd, podman and checkpointctl of today are in Debian's unstable suite; those of Debian 12 are years older. Their libc must never
# replace the system's, so programs, libraries, libc and the dynamic loader lie together below the prefix:
#
#   bin/      the programs. Put it into the path, and CRIU too (scripts/install-criu.sh)
#   root/     the packages that they are from
#
# runc starts itself again by /proc/self/exe, so it cannot be started by a loader that is named on the command line, as our CRIU is: each program
# names its loader by its full path, and the prefix cannot be moved. Tests and benchmarks use it; nothing of the product does.
#
# Does nothing if all of them run at the prefix already.
set -euo pipefail

# shellcheck source=scripts/debian-packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/debian-packages.sh"

prefix=/opt/infinijup/containers
# The packages whose programs are wanted, and what those load while they run: crun its library of CRIU's.
packages=(runc crun libcriu2 containerd conmon podman netavark nftables checkpointctl)
read_prefix "$@"

runs() {
    local program
    for program in runc crun containerd ctr containerd-shim-runc-v2 podman conmon netavark nft checkpointctl; do
        case $program in
            containerd-shim-runc-v2) "$prefix/bin/$program" -v ;;
            checkpointctl) "$prefix/bin/$program" --help ;;
            *) "$prefix/bin/$program" --version ;;
        esac >/dev/null 2>&1 || return 1
    done
    # Versions that the tests were written with; containerd before it lets restored containers take devices that nobody gave them (CVE-2026-53492).
    new_enough 2.1.9 "$("$prefix/bin/containerd" --version | sed -n 's/^[^ ]* [^ ]* v\{0,1\}\([0-9.]*\).*/\1/p')" &&
        new_enough 1.3 "$("$prefix/bin/runc" --version | sed -n 's/^runc version //p')" &&
        new_enough 5.0 "$("$prefix/bin/podman" --version | sed -n 's/^podman version //p')"
}
tell() {
    say "$prefix/bin has $("$prefix/bin/containerd" --version | cut -d' ' -f1,3), $("$prefix/bin/runc" --version | head -n 1), $("$prefix/bin/podman" --version)"
}

if runs; then
    tell
    exit 0
fi
unpack_packages sid "${packages[@]}" patchelf

mkdir -p "$next/bin"
# Where the loader and the libraries will be.
home=$prefix/root${loader#"$root"}
for package in "${packages[@]}"; do
    while read -r file; do
        [ -x "$root/$file" ] || continue
        patchelf --print-interpreter "$root/$file" >/dev/null 2>&1 || continue
        # In this order: patchelf 0.18 breaks large programs of Go's in the other one. DT_RPATH, unlike RUNPATH, also holds for what the libraries themselves need.
        patchelf --force-rpath --set-rpath "$(dirname "$home"):$prefix/root/usr/lib" "$root/$file"
        patchelf --set-interpreter "$home" "$root/$file"
        ln -sf "../root/$file" "$next/bin/$(basename "$file")"
    done < <(sed -n "s#^\(\(usr/\)\{0,1\}\(s\{0,1\}bin\|lib\|libexec\)/.*\) $package\$#\1#p" "$work/files" | grep -v '\.so')
done
rm -rf "$root"/usr/share/{doc,man,locale,info}
cp "$work/versions" "$next/packages.txt"
mv "$root" "$next/root"
swap_in runs
tell
