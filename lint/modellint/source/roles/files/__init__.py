"""What the files of a project are for: programs, files that nothing leads to or that cannot be imported, and what they save."""
