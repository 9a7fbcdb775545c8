"""Rules about calls and control flow that tracing cannot see."""
