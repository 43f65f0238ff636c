"""Models behind an API: any OpenAI-compatible server, and every provider that Inspect knows."""

from taskloom.learners.models import learner as learner
from taskloom.learners.models import providers as providers
