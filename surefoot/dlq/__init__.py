"""Dead letters: taking them in, showing them, and carrying out what operators decide."""
