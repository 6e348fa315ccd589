"""vLLM servers under load: concurrent clients against every way of drafting, and many requests that leave early."""
