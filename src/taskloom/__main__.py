"""`python -m taskloom` is the command `taskloom`."""

from taskloom.cli import main

if __name__ == "__main__":
    main()
