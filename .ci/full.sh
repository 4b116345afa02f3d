# shellcheck shell=bash
# The sizes of `.ci/run --full`: longer than a change can wait for, with the same assertions. Read by the tests that they name.

# Snapshots and rollbacks of one kernel (100), of a tiny process (300) and of a large kernel (20), and the MiB of that (256).
export INFINIJUP_LEAK_CYCLES=1000
export INFINIJUP_LEAK_CYCLES_TINY=800
export INFINIJUP_LEAK_CYCLES_LARGE=50
export INFINIJUP_LEAK_MIB=1024
# For how long an intruder tries (5), and a client floods the daemon (3).
export INFINIJUP_INTRUDER_SECONDS=60
export INFINIJUP_FLOOD_SECONDS=10
# Snapshots and rollbacks of a kernel with everything that a kernel can have (8).
export INFINIJUP_STATE_ROUNDS=20
# Kills of processes that write to a store, in its four configurations together (160).
export TORTURE_KILLS=300
# Swaps under clients that know nothing of them, by rollback and by sleep (12); as many through a kernel that the client started itself.
export INFINIJUP_RAW_SWAPS=200
# Kills of a daemon at any moment (40), and notebooks that share a GPU (5).
export INFINIJUP_KILLS=100
export INFINIJUP_E2E_NOTEBOOKS=8
# Cells of a day's work in a browser, and MB of data (10x60).
export INFINIJUP_DAY=40x600
# Operations of each of two users side by side (20).
export INFINIJUP_SIDE_BY_SIDE=200
# Rounds of a kernel with two GPUs, and MiB on each of them (4x64,1x256). Of all tests with a GPU these took longest: twenty rounds of 64 MiB
# are seven minutes, eight were a core for a minute and a half. Each round looks at what is held after it.
export INFINIJUP_GPU_STORIES=20x64,20x1024
# Rounds of a container that is put to sleep and brought back, MiB that it has on each of two GPUs, and in memory (2, 8, 128).
export INFINIJUP_CONTAINER_ROUNDS=10
export INFINIJUP_CONTAINER_GPU_MIB=256
export INFINIJUP_CONTAINER_MIB=256
# Kills of a daemon at any moment of a suspend or resume of a container (6).
export INFINIJUP_CONTAINER_KILLS=40
# Faults of containers: each at every step of CRIU, with every runtime (each at one of the steps).
export INFINIJUP_CONTAINER_FAULTS=all
# Freezes in which every page of a program that is followed is compared with its copy (100).
export INFINIJUP_MEMORY_CHECKS=2000
# How long the tests in Rust of a stage may take then (900), and those of the programs from outside (3600).
export RUST_TESTS_SECONDS=10800
export OUTSIDE_TESTS_SECONDS=21600
# Writers that push to one remote beside collections, and for how long (4, 20).
export INFINIJUP_REMOTE_WRITERS=16
export INFINIJUP_REMOTE_SECONDS=300
# Random histories of memory (12).
export INFINIJUP_MEMORY_HISTORIES=500
# For how long each fuzz target runs (3).
export FUZZ_SECONDS=60
# The version whose sessions go on under this one; its wheel is built for it (not in the gate).
export INFINIJUP_UPGRADE_FROM=HEAD~1
# Programs are built out of the source archive, as pip does where no wheel fits (not in the gate).
export INFINIJUP_FROM_SOURCE=1
# Another version of Debian on which the first steps are done (not in the gate).
export INFINIJUP_ELSEWHERE=trixie
