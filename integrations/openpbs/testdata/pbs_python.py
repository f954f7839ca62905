"""A stand-in for pbs_python, see pbs.py: python3 pbs_python.py --hook -i IN -o OUT -L LOGS -e MASK SCRIPT"""
import os
import sys

import pbs

os._exit(pbs.run(sys.argv[-1], sys.argv[2:-1]))
