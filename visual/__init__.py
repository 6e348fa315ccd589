"""The demo page. It reads traces and knows an engine by its protocol only; importing it never loads torch."""
