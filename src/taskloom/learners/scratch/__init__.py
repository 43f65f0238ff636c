"""Learners trained from scratch. Importing this package registers them; torch is imported only when one is fitted."""

from taskloom.learners.scratch import bidaf_learner as bidaf_learner
from taskloom.learners.scratch import classifiers as classifiers
from taskloom.learners.scratch import memory_networks as memory_networks
