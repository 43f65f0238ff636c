"""What only Dyna-bAbI has: the concat and inject splits, and the reference's configuration
files.
"""
