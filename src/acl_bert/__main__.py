import sys

from acl_bert.starting.client import run_by_template

status = run_by_template(sys.argv[1:])
if status is None:
    from acl_bert.cli import main

    status = main()
raise SystemExit(status)
