"""What brings modellint into code that is there already: known findings, comments that suppress, settings, hooks."""
