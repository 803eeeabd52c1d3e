"""Learning a machine from measured trees."""
