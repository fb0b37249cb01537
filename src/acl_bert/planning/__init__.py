"""What a study would take before it starts: runs, time, disk."""
