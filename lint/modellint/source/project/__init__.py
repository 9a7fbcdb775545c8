"""The project index: files, imports, and what names mean across them."""
