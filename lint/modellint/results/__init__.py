"""What modellint finds, as frozen data: diagnostics, verdicts, verifications, exports."""
