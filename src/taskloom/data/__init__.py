"""Datasets: splits of examples with a manifest; making, reading and verifying them."""

from taskloom.data.dataset import Dataset as Dataset
from taskloom.data.dataset import Examples as Examples
from taskloom.data.dataset import load as load
