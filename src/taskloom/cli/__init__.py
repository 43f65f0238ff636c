"""The command line. Everything it does can be done from Python.

Each command is one function, which parses its arguments, calls the API and prints the result. The
text of --help comes from its docstring and options. Commands import what they need when they are
called, so `taskloom --help` stays fast.
"""

from taskloom.cli.app import main as main
from taskloom.cli.app import run as run
