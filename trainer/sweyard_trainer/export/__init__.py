"""The weights of a run as a directory that transformers, vLLM and peft load."""
