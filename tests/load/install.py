"""Counts the packages of a default install, in an environment made for it."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.load.servers import ROOT

_COUNT = (
    "import importlib.metadata as m; "
    "print(len({d.name for d in m.distributions()} - {'pip', 'setuptools', 'wheel'}))"
)


def count_packages() -> int:
    """Install the project with its default dependencies and count the distributions, including itself."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = next(path for path in Path(folder).glob("*/python*") if path.stem == "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(ROOT)], check=True)
        counted = subprocess.run([python, "-c", _COUNT], check=True, capture_output=True, text=True)
    return int(counted.stdout)
