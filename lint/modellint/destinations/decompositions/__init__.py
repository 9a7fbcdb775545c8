"""Decompositions: functions of PyTorch that compute what an operator computes, in operators that converters know, for every destination."""
