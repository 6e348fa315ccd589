"""Steps of fixed shape, which a GPU records once and replays; flash attention over the context; which way pays."""
