"""Profiles: a fixed panel of tasks for any model (panel.yaml), and a study of the runs on it that
shows where the model holds and where it breaks.
"""

from taskloom.analysis.profile import profile_page

__all__ = ["profile_page"]
