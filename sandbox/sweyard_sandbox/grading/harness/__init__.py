"""The program that runs tests inside a grading sandbox: standard library (and pytest) only, shipped as one zip file."""
