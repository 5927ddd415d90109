"""Engines: what turns a prompt of token ids into sampled token ids with their logprobs."""
