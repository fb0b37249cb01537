"""The analyses of paper.md §1, each with its table and figure."""
