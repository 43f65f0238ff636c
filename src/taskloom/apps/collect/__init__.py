"""Collecting description tasks with a group of people: section 4 of ZEST for your own documents,
without a crowd platform.

The rules are plain functions on an `EventStore`, and `web/` serves them as pages.
`taskloom collect serve PROJECT` starts the server.
"""
