"""Catalogues: the models of installed packages in their smallest forms, made from the packages' own classes; nothing is downloaded.

Each module has a collection ``models``, as a user's own file may have one.
"""
