"""The command of the shell: ``python -m drillcore`` is ``drillcore``."""

from __future__ import annotations

import sys

from drillcore import _native


def main() -> int:
    """Run the command with the arguments of this process and return its exit code."""
    return _native.command(["drillcore", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
