#!/bin/sh -p
# Starts the CRIU in ../lib/infinijup-criu, wherever that is.
#
# It comes with a libc newer than most machines have, so it must be started by its own loader, and an ELF file can name a loader by
# an absolute path only. Naming the loader here instead lets the whole directory be moved or unpacked anywhere, by anybody.
#
# Descriptors, capabilities, ids and the process id stay what they are: nothing is started in between. No program but the loader is
# run, for CRIU is started while somebody waits. The daemon starts CRIU with another real than effective user: a shell gives the
# effective one up unless it is told not to (-p), and a loader then does not believe what a program says of its libraries ($ORIGIN),
# only what it is told by whoever runs it.
case $0 in
    */*) me=$0 ;;
    *) me=./$0 ;;
esac
[ ! -L "$me" ] || me=$(readlink -f -- "$me")
home=${me%/*}/../lib/infinijup-criu
# Libraries of the machine are made for another libc.
unset LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT
for loader in "$home"/ld-linux-*; do
    [ ! -x "$loader" ] || exec "$loader" --library-path "$home" --argv0 criu "$home/criu" "$@"
done
echo "infinijup-criu: there is no CRIU in $home; install it again (pip install --force-reinstall infinijup-criu)" >&2
exit 127
