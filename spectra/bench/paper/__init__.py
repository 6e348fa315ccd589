"""The paper's Tables 1, 2 and 4 as one command a model."""
