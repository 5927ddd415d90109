"""The page: runs, sandboxes, images and attempts in a browser, from a directory or a cluster. It only reads."""
