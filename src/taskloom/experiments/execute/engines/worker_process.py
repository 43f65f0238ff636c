"""A worker process of the local engine: reads jobs from its parent, does them, says what came of
them.

A fresh interpreter, not a fork (Arrow's and torch's threads do not survive one), and not
multiprocessing's spawn either, which would run the caller's script again and so forbid
`taskloom.run` at the top of one.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from multiprocessing.connection import Connection

from taskloom.data.workers import end_with_parent


def main() -> None:
    """Serve until the parent closes the connection."""
    connection = Connection(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    end_with_parent()
    faulthandler.enable()  # into the job's log, since that is where errors go
    from taskloom.experiments.execute.worker import perform

    while True:
        try:
            connection.send(perform(connection.recv()))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the parent has gone


if __name__ == "__main__":
    main()
