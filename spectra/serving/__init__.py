"""SPECTRA's drafters inside vLLM, which batches, verifies and serves. Only `vllm.py` and `__main__.py` know of vLLM."""
