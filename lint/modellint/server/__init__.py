"""The language server: what editors ask while people type, answered by the checks that `modellint check` makes."""
