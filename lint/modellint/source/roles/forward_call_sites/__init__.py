"""Call sites of `forward`: where the project calls its modules, what it gives them, and what it reads of their results."""
