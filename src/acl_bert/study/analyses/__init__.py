"""The analyses of docs/paper.md §1, each with its table and figure."""
