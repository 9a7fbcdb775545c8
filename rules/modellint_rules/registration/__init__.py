"""State that the model forgets: modules, parameters and buffers that PyTorch never gets to see."""
