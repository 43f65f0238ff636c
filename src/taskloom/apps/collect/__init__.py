"""Collection of description tasks by a group of people: section 4 of ZEST over your own documents,
without a crowd platform.

The rules are plain functions over an `EventStore`, and `web/` serves them as pages. `taskloom
collect serve PROJECT` starts the server.
"""
