"""The policy's weights and tokenizer: made from scratch, loaded, written in Hugging Face format."""
