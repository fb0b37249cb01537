"""From finished runs to tables and figures; reads result files, imports no torch."""
