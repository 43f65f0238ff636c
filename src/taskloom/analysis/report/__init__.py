"""Reports: one self-contained HTML page to send to a colleague."""
