"""The factual world of TaskBench500: relations between entities, from files, from a SPARQL server, or invented.

`open_world` takes a path, an address or `synthetic` and gives a `World`; `World.relation(name)` and `World.predicate(name)` are all
that a composition needs, `name_relation` and `name_predicate` turn the result into text.
"""
