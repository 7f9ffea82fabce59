"""Where SGLang keeps its runtime: the import paths that others rely on."""
