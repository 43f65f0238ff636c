"""Stories: events, vocabulary, their English, and the text format of bAbI."""
