"""Datasets: splits of examples with a manifest; making, reading and verifying them."""

from taskloom.dataset.dataset import Dataset as Dataset
from taskloom.dataset.dataset import Examples as Examples
from taskloom.dataset.dataset import load as load
