"""What is known of classes and of code once they are read: the facts that rules ask."""
