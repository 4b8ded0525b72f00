"""The `smelt` command of the wheel: the program that the wheel carries."""
import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "smelt")
    os.execv(program, [program, *sys.argv[1:]])
