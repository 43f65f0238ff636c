"""Local web applications: `taskloom view` and `taskloom collect`, and the guards that both servers
share.
"""
