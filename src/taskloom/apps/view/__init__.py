"""The viewer: suites, recipes, datasets and runs in a browser, from a small server on this machine.

It only reads. Every page is made on the server from templates; pages work without JavaScript, which
adds the live parts.
"""
