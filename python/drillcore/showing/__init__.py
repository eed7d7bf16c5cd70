"""What notebooks and terminals show: tables, drawings of intervals, and progress."""
