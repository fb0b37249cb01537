"""The paper's objectives (docs/paper.md §2), and those they are compared with (§3)."""
