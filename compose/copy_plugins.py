"""Fetch the pinned plugins of Kafka Connect and copy them into a folder, each into one of its own: for the image of Connect."""

import shutil
import sys
from pathlib import Path

from railgun.kafka.embedded.connect_jars import plugin_folders

for name, folder in plugin_folders().items():
    shutil.copytree(folder, Path(sys.argv[1]) / name)
