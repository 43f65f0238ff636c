"""Learners behind an OpenAI-compatible endpoint."""

from taskloom.learners.endpoint import learner as learner
