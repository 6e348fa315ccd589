"""The CPU step of this project: weights as it reads them, whole or quantised."""
