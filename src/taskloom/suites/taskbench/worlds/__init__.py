"""The worlds that functions are evaluated in: words, facts and random relations."""
