"""What the `rewrite` agent is told of its own tools."""

VIEW = """\
view: look at a file, with line numbers, or at a directory.
  path: file or directory
  view_range: the lines to show, as [first, last]; optional
"""
REWRITE = """\
rewrite: put new code in the place of lines of a file, or of the whole file; shows the difference.
  path: the file
  start, end: first and last line that go away; end is start if left out, and the whole file goes if both are
  new_code: what comes there, with its indentation; empty to delete the lines
"""
