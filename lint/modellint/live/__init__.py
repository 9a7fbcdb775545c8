"""Live analysis: a module in memory to facts, and facts to findings; everything here may import torch."""
