# shellcheck shell=bash
# Hundreds of snapshots and rollbacks leave nothing behind.

if need_programs "hundreds of cycles"; then
    end_to_end "end to end, hundreds of cycles" /opt/infinijup/test-venv/bin/python 2 "${MANY_CYCLES[@]}"
fi
