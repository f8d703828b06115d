#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The demo on the other host: no gpu, no module, just an RDMA device.
set -euo pipefail
vm-barrier offered 2 300
"$DISTMIND_BUILD/demo/remote_memory" visit 10.77.0.1
vm-barrier visited 2
