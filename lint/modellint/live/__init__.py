"""Live modules to facts to findings; everything here may import torch."""
