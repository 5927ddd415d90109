"""`rewrite`: view, search and rewrite, the tools of debug-gym's agent without a debugger."""
