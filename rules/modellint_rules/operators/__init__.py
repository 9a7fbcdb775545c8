"""Rules about operators that Core ML lacks."""
