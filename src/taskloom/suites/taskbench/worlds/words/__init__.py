"""The lexical world: WordNet, its Spanish sister and SentiWordNet as tables of words."""
