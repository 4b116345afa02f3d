# shellcheck shell=bash
# Containers as they run: real containerd, runc, crun and podman with an image that is made here, and the stand-in for GPUs.

containers() {
    need_programs "containers" || return 0
    installed containers || return 0
    outside_tests "containers" tests/containers /opt/infinijup/test-venv/bin/python 230
}

containers
