"""Learners that generate text: language models of any origin, with full fine-tuning, LoRA, or a
tuned prompt.

Importing this package registers them; torch is imported only when one is fitted.
"""

from taskloom.learners.pretrained import extractive as extractive
from taskloom.learners.pretrained import grpo as grpo
from taskloom.learners.pretrained import in_context as in_context
from taskloom.learners.pretrained import language_models as language_models
