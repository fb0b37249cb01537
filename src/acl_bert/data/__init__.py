"""Tasks: what they are (data), where their rows come from, how they are split and tokenised."""
