"""``python -m specverify``."""

from specverify.cli.main import main

if __name__ == "__main__":
    main()
