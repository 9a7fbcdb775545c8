"""One function for each output format: findings in, text out."""
