"""Makes the driver's checkpoint calls on request: reads `NAME PID`, writes the result and how long the call took."""

import ctypes
import sys
import time

driver = ctypes.CDLL("libcuda.so.1")
for line in sys.stdin:
    name, pid = line.split()
    # All arguments are 64 bytes of zeros: no limit, no map.
    arguments = ctypes.create_string_buffer(64)
    function = getattr(driver, f"cuCheckpointProcess{name}")
    begun = time.perf_counter()
    result = function(int(pid), arguments)
    print(result, time.perf_counter() - begun, flush=True)
