"""Collection of description tasks by a group of people: ZEST's section 4 over one's own documents,
without a crowd platform.

The rules are plain functions over an `EventStore`; `web/` serves them as pages. `taskloom collect
serve PROJECT` starts the server.
"""
