"""Dry run: coremltools' front end walked without converting, and the verdicts that it leads to."""
