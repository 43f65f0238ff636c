"""Chat models: behind any OpenAI-compatible server, from any provider that Inspect supports, or in
this process.
"""

from taskloom.learners.models import local as local
from taskloom.learners.models import providers as providers
