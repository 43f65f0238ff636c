"""Recipes: reading, checking and naming the YAML files that define a dataset."""

from taskloom.recipe.fields import Fields as Fields
from taskloom.recipe.fields import Size as Size
from taskloom.recipe.fields import Span as Span
from taskloom.recipe.recipe import Recipe as Recipe
from taskloom.recipe.recipe import check as check
from taskloom.recipe.recipe import names as names
from taskloom.recipe.recipe import read as read
