"""Roles: whether code is reached when an exported model runs, told by the code itself and by who builds and calls it in the project."""
