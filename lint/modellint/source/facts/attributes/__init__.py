"""The attributes of `self` in the methods of one class: definitions and uses."""
