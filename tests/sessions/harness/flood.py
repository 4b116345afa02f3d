"""A client of the daemon's own user that knows no measure. Uses the standard library only, and is run as text with `python -c`, as
`bodies|requests SOCKET SECONDS`. It prints `begun`, and at the end as JSON what it could send and what it was answered."""

import collections
import json
import selectors
import socket
import sys
import time

CONNECTIONS, BODY = 128, 150_000_000
PIECE = bytes(1 << 20)


def bodies(path, seconds):
    """Connections at once, each with a body of 150 MB, of which it sends as much as is taken. Every fourth does not say how long it is."""
    selector = selectors.DefaultSelector()
    for number in range(CONNECTIONS):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        length = f"Content-Length: {BODY}" if number % 4 else "Transfer-Encoding: chunked"
        client.sendall(f"POST /v1/sessions/x/snapshot HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{length}\r\n\r\n".encode())
        client.setblocking(False)
        pending = b"" if number % 4 else f"{BODY:x}\r\n".encode()
        selector.register(client, selectors.EVENT_READ | selectors.EVENT_WRITE, {"pending": pending, "sent": 0})
    print("begun", flush=True)
    answers, sent, deadline = collections.Counter(), 0, time.monotonic() + seconds
    while selector.get_map() and time.monotonic() < deadline:
        for key, events in selector.select(0.5):
            client, state = key.fileobj, key.data
            try:
                if events & selectors.EVENT_READ:
                    answers[last_words(client)] += 1
                    selector.unregister(client)
                elif events & selectors.EVENT_WRITE:
                    count = client.send(state["pending"] or PIECE)
                    state["pending"] = state["pending"][count:]
                    sent += count
            except BlockingIOError:
                pass
            except OSError:
                # It hung up while we were sending; what it said before that is there to be read.
                answers[last_words(client)] += 1
                selector.unregister(client)
    answers["still taking"] = len(selector.get_map())
    return {"connections": CONNECTIONS, "sent": sent, "answers": answers}


def last_words(client):
    """The code of an answer that has come already."""
    try:
        return client.recv(1 << 16)[9:12].decode() or "closed"
    except OSError:
        return "broken"


def requests(path, seconds):
    """As many small requests as go, a hundred at a time on one connection."""
    batch = b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n" * 100
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    print("begun", flush=True)
    answered, begun = 0, time.monotonic()
    while time.monotonic() < begun + seconds:
        client.sendall(batch)
        heard = b""
        while heard.count(b"HTTP/1.1 200") < 100 or not heard.endswith(b"}"):
            piece = client.recv(1 << 20)
            if not piece:
                sys.exit("it hung up")
            heard += piece
        answered += 100
    return {"answered": answered, "seconds": time.monotonic() - begun}


if __name__ == "__main__":
    print(json.dumps({"bodies": bodies, "requests": requests}[sys.argv[1]](sys.argv[2], float(sys.argv[3]))))
