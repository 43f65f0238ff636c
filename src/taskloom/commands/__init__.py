"""The commands, one function each: parse, call the API, print. Their docstrings and options are the --help.

What they import of ours is imported when they are called: `taskloom --help` needs none of it.
"""
