"""What the `pdb` agent is told of its debugger."""

PDB = """\
pdb: speak to the Python debugger. It stays where it is between calls; after changes to files it starts anew.
  command: one command of pdb, such as `b pkg/module.py:12`, `c`, `n`, `p value`; breakpoints are kept and follow edits
  entrypoint: what to debug, such as `python -m pytest tests/test_module.py` or `python script.py`; needed in the first
    call, later only to debug something else
"""
