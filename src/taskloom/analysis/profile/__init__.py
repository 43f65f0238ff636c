"""Profiles: one fixed panel of tasks for any model, and a page that says where the model holds and
where it breaks.
"""
