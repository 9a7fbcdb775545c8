"""What converters and runtimes do: one package for each destination of an export."""
