"""`pdb`: file_editor, search, finish, and a debugger that stays alive between calls, as debug-gym has it."""
