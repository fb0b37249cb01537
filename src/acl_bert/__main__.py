from acl_bert.cli import main

raise SystemExit(main())
