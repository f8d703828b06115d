# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the source tree, the build directory and the caches are."""

import os
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("DISTMIND_BUILD") or SOURCE / "build").resolve()
VM = SOURCE / "tests" / "vm"
