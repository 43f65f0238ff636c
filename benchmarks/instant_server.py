"""A server in the form of a chat endpoint that answers at once, so that what is measured is the
client.
"""

from __future__ import annotations

import socket
import threading

REPLY = (
    b'{"choices": [{"message": {"role": "assistant", "content": "yes"}}], "usage":'
    b' {"total_tokens": 9}}'
)
RAW = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(REPLY),
    REPLY,
)


def serve(listening: socket.socket) -> None:
    """Answer every request on every connection with the same reply."""
    while True:
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection: socket.socket) -> None:
    """Reply to what arrives: a request ends with the brace of its JSON."""
    with connection:
        text = b""
        while part := connection.recv(1 << 16):
            text += part
            if text.endswith(b"}"):
                connection.sendall(RAW)
                text = b""
