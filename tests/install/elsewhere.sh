#!/usr/bin/env bash
# The first steps on another version of Debian: `tests/install/elsewhere.sh SUITE DIR`, as root, with the wheels of scripts/build-wheel.sh
# --criu in DIR. It makes a small system of that suite with debootstrap (kept in /var/tmp for the next time), enters it with the
# kernel of this machine and nothing else of it, and does there as an ordinary user without any privilege what README.md says, short of
# the browser: pip install, doctor, a kernel, a snapshot, the way back. The last line is `elsewhere: it works on SUITE`.
#
# With `--podman` at the end it is done in a container, with the options that docs/install.md names.
set -euo pipefail

suite=${1:?which suite: trixie, sid …}
wheels=$(realpath "${2:?where the wheels are}")
root=/var/tmp/infinijup-$suite

command -v debootstrap >/dev/null || apt-get install -y -q -o DPkg::Lock::Timeout=300 debootstrap
if [ ! -e "$root/ready" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates,tar,procps "$suite" "$root"
    chroot "$root" useradd --create-home --shell /bin/bash ada
    touch "$root/ready"
fi
rm -rf "$root/wheels" "$root/home/ada/lab" "$root/home/ada/.local"
cp -r "$wheels" "$root/wheels"
cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
# Whom this machine trusts: behind a proxy that may be one more than Debian does.
cp --dereference /etc/ssl/certs/ca-certificates.crt "$root/certificates"

cat >"$root/steps" <<'STEPS'
set -euo pipefail
grep -E '^(CapPrm|CapEff):\s0000000000000000$' /proc/self/status | wc -l | grep -qx 2
grep -qE '^NoNewPrivs:\s1$' /proc/self/status
cd
python3 -m venv lab
. lab/bin/activate
PIP_FIND_LINKS=/wheels pip install --quiet --disable-pip-version-check 'infinijup[criu]' ipykernel jupyter_client
infinijup doctor
infinijup kernel start --name work
cat >ask.py <<'ASK'
import json, subprocess, sys
from jupyter_client import BlockingKernelClient
view = json.loads(subprocess.run(["infinijup", "ps", "work", "--json"], check=True, capture_output=True, text=True).stdout)
def find(what):
    if isinstance(what, dict):
        if "connection_file" in what:
            return what["connection_file"]
        what = what.values()
    elif not isinstance(what, list):
        return None
    return next(filter(None, map(find, what)), None)
client = BlockingKernelClient(connection_file=find(view))
client.load_connection_file()
client.start_channels()
client.wait_for_ready(60)
reply = client.execute_interactive(sys.argv[1], timeout=60)
assert reply["content"]["status"] == "ok", reply
ASK
python ask.py 'x = 1'
infinijup snapshot work
python ask.py 'x = 2'
infinijup rollback work work
python ask.py 'assert x == 1, x'
infinijup stop work
infinijup daemon stop
STEPS

in_podman() {
    command -v podman >/dev/null || apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 podman runc
    # Limits, because by default it raises some, which root may not do everywhere; runc, because crun refuses hybrid cgroups.
    podman --runtime runc --cgroup-manager=cgroupfs run --rm --network host --ulimit nofile=1024:4096 --ulimit nproc=1000:1000 \
        --security-opt seccomp=unconfined --security-opt unmask=ALL --security-opt no-new-privileges --cap-drop=all \
        --user "$(stat -c %u:%g "$root/home/ada")" --env HOME=/home/ada --env PATH=/usr/bin:/bin --env LC_ALL=C.UTF-8 \
        --env PIP_CERT=/certificates --rootfs "$root" bash /steps
}

# A user in a chroot may make no user namespaces: so it becomes the root of a mount namespace instead.
in_a_namespace() {
    # shellcheck disable=SC2016
    unshare --mount --pid --fork --propagation private bash -euc '
        mount --bind "$1" "$1"
        cd "$1"
        mount -t proc proc proc
        mount --rbind /dev dev
        mount -t tmpfs -o mode=755 tmpfs run
        mount -t tmpfs -o mode=1777 tmpfs tmp
        pivot_root . mnt
        umount -l /mnt
        cd /
        exec setpriv --reuid ada --regid ada --init-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
            env -i HOME=/home/ada USER=ada PATH=/usr/bin:/bin LC_ALL=C.UTF-8 PIP_CERT=/certificates bash /steps
    ' bash "$root"
}

if [ "${3:-}" = --podman ]; then
    in_podman
else
    in_a_namespace
fi
echo "elsewhere: it works on $suite"
