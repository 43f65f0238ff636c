"""Models behind an API: any server that speaks the OpenAI protocol."""

from taskloom.learners.models import learner as learner
