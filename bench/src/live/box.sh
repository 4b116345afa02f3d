#!/bin/sh
# The inside of a bare box, run in the namespaces that `unshare` made: ROOT becomes `/`, with file systems that CRIU can dump by
# itself, and the directory SHARED is seen at PLACE. $BOX_NODES names further devices, a line each: name, major, minor.
# Then COMMAND runs below a process 1, which must lead a session: `box.sh ROOT SHARED PLACE COMMAND…`.
set -eu
root=$1 shared=$2 place=$3
shift 3
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
while read -r node major minor; do
    [ -n "$node" ] || continue
    mknod -m 666 "$root/dev/$node" c "$major" "$minor"
done <<NODES
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
$BOX_NODES
NODES
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount --bind "$shared" "$root$place"
cd "$root"
pivot_root . mnt
# What is open must have been opened inside, or CRIU does not find its mount.
exec chroot . /bin/sh -c '
    umount -l /mnt
    cd /
    place=$1
    shift
    exec </dev/null >>"$place/log" 2>&1
    unset BOX_NODES
    exec setsid sh -c "\"\$@\" & wait" sh "$@"
' sh "$place" "$@"
