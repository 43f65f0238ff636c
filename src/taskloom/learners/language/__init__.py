"""Learners that write text: language models of any origin, fine-tuned whole, by LoRA, or by a tuned prompt."""
