"""The four papers: their studies, published numbers and experiments. Built on the rest, and
imported by nothing below.
"""
