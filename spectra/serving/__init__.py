"""SPECTRA's drafters inside vLLM, which batches, verifies and serves. `vllm.py` is what vLLM loads."""
