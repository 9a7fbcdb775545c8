"""Dead code: classes and functions that nothing in the project uses, and code that cannot be run."""
