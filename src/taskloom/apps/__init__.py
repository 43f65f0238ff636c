"""Local web applications: `taskloom view` and `taskloom collect`, and the request guards that both
servers share.
"""
