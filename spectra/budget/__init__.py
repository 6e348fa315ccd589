"""Which nodes of a tree are worth a query token: the policy, and its estimates of acceptance."""
