"""`python -m titans_ts`: the command line `titans-ts`."""

from .command.app import main

if __name__ == "__main__":
    main()
