# shellcheck shell=bash
# A thousand snapshots and rollbacks leave nothing behind.

if need_programs "a thousand cycles"; then
    end_to_end "end to end, a thousand cycles" /opt/infinijup/test-venv/bin/python 2 "${THOUSAND_CYCLES[@]}"
fi
