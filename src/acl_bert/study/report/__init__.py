"""The report of a study: one HTML file that opens offline."""
