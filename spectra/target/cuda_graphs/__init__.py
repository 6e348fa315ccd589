"""Steps of fixed shape, which a GPU captures once and replays; flash attention over the context; which way pays."""
