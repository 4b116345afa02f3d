# shellcheck shell=bash
# A thousand snapshots and rollbacks of one kernel leave nothing behind. The lane that `privileged` began is waited for; alone, this
# stage runs the cycles itself.

endurance() {
    if [ ! -f "$SCRATCH/lane.pid" ]; then
        need_programs "a thousand cycles" && run_thousand_cycles
        return
    fi
    while [ ! -f "$SCRATCH/lane.done" ] && kill -0 "$(cat "$SCRATCH/lane.pid")" 2>/dev/null; do sleep 1; done
    cat "$SCRATCH/lane.log"
    if [ -s "$SCRATCH/lane" ]; then
        cat "$SCRATCH/lane" >>"$RESULTS"
    else
        record 0 1 0 "a thousand cycles ended without a result"
    fi
}

endurance
