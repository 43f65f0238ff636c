"""The reasoner: what a story entails, with every minimal support."""
