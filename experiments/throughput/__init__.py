"""How much one worker takes, how soon it answers, and what others do beside it."""
