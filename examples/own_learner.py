"""A GRU that reads the words of an input: an ordinary torch module as a learner, trained and compared like any other."""

import torch

import taskloom as tl


@tl.learner(
    "mine/gru", describe="one-layer GRU, from scratch", steps=300, batch=128, rate=3e-3, warmup=20
)
class GRU(torch.nn.Module):
    """The last state of a GRU decides.

    Attributes:
        state: Size of the word vectors and of the state.
        dropout: On the word vectors.
    """

    def __init__(
        self, vocabulary: int, answers: int, state: int = 64, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(vocabulary, state)
        self.dropout = torch.nn.Dropout(dropout)
        self.gru = torch.nn.GRU(state, state, batch_first=True)
        self.readout = torch.nn.Linear(state, answers)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Compute logits [batch, answers] for token ids [batch, time]."""
        states, _ = self.gru(self.dropout(self.words(tokens)))
        last = states[torch.arange(len(tokens)), lengths - 1]
        return self.readout(last)
