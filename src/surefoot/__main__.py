"""`python -m surefoot`, and `torchrun -m surefoot`: the command line."""

from surefoot.cli.main import main

if __name__ == "__main__":
    main()
