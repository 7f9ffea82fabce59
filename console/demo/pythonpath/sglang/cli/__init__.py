"""`sglang serve`."""
