"""Constructor flags: arguments of constructors that are one constant in all the project, and the branches that these rule out."""
