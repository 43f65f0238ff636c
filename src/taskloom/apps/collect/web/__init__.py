"""The pages of a collection project: a small Starlette application over the rules in
`taskloom.apps.collect`.
"""
