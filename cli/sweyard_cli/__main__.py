"""`python -m sweyard_cli`."""

from sweyard_cli.main import main

if __name__ == "__main__":
    main()
