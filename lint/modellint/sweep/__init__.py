"""Sweep: many live targets, each checked, verified or exported in a process of its own; a row for each in one file."""
