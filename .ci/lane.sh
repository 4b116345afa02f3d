#!/usr/bin/env bash
# One stage as a lane: beside other stages, with a /dev and a /run of its own, because the stand-in for GPUs puts its nodes into /dev, daemons
# their images into /dev/shm by the number of their user, and root's daemon its socket into /run. .ci/run starts it; what it prints and counts goes where `begin_beside` says.
#
#   lane.sh NAME    $SCRATCH and $RESULTS are those of the run
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

# A copy of the machine's nodes; what is mounted in there is mounted here, too.
own_dev() {
    local new=$SCRATCH/dev-of-$STAGE part
    mkdir "$new" && mount -t tmpfs -o mode=755 dev "$new" || return
    find /dev -xdev -mindepth 1 -maxdepth 1 ! -type d -exec cp -a {} "$new" \; || return
    for part in pts net; do
        [ -d "/dev/$part" ] || continue
        mkdir "$new/$part" && mount --rbind "/dev/$part" "$new/$part" || return
    done
    mkdir "$new/shm" && mount -t tmpfs -o mode=1777 shm "$new/shm" || return
    mount --move "$new" /dev
}

own_run() {
    mount -t tmpfs -o mode=755 run /run && mkdir -m 1777 /run/lock && mkdir /run/user
}

STAGE=$1
if [ "${2:-}" != inside ] && [ "$(id -u)" -eq 0 ]; then
    exec unshare --mount --propagation private "${BASH_SOURCE[0]}" "$STAGE" inside
fi
# shellcheck source=.ci/lib.sh
source .ci/lib.sh
# shellcheck source=.ci/installs.sh
source .ci/installs.sh
if [ "$(id -u)" -eq 0 ] && ! { own_dev && own_run; }; then
    record 0 1 0 "stage $STAGE got no /dev and /run of its own"
    exit 1
fi
# shellcheck source=/dev/null
source ".ci/stages/$STAGE.sh"
