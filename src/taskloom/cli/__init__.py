"""The command line. Everything it does can be done from Python.

One function a command: parse, call the API, print. Docstrings and options are the --help. What a
command needs is imported when it is called, so `taskloom --help` imports none of it.
"""

from taskloom.cli.app import main as main
from taskloom.cli.app import run as run
