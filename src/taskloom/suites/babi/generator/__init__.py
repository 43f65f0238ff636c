"""The generator: stories whose questions have the support that a recipe asks for."""
