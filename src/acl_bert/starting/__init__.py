"""Jobs that start at once: one process of a workflow imports, and is forked for each job."""
