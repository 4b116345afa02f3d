# A client of a kernel, fed with lines: each names a connection file, a cell and an expression to evaluate after it. Connects
# anew each time, so that the time of an answer does not depend on how long ZeroMQ waits before it tries again; where the kernel is not
# exchanged it can be told to keep its connection, as a notebook does. It listens to iopub, as every notebook does: a client that cannot hear what
# a kernel publishes is held for a second before it may ask.
import json
import sys
import time

from jupyter_client import BlockingKernelClient

kept = {}


def connect(file):
    client = BlockingKernelClient()
    client.load_connection_file(file)
    client.start_channels(shell=True, iopub=True, stdin=False, hb=False, control=False)
    return client


for line in sys.stdin:
    ask = json.loads(line)
    file = ask["connection_file"]
    client = kept.pop(file, None) or connect(file)
    begun = time.perf_counter()
    sent = client.execute(ask["cell"], silent=not ask["cell"], store_history=False, user_expressions={"value": ask["value"]})
    while True:
        message = client.get_shell_msg(timeout=ask["seconds"])
        if message["parent_header"].get("msg_id") == sent:
            break
    took = time.perf_counter() - begun
    content = message["content"]
    if content["status"] == "ok":
        content = content["user_expressions"]["value"]
    answer = content["data"]["text/plain"] if content["status"] == "ok" else None
    print(json.dumps({"value": answer, "took": took, "error": None if answer is not None else str(content)}), flush=True)
    if ask["keep"]:
        kept[file] = client
    else:
        client.stop_channels()
