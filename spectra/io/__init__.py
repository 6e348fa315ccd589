"""Files, checksums, resumable work, progress, text streams, data files of the project: written once. No model."""
