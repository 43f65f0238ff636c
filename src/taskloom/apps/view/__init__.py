"""The viewer: suites, recipes, datasets and runs in a browser, from a small server on this machine.

It never writes to these folders. Pages are rendered on the server and work without JavaScript,
which adds live updates.
"""
