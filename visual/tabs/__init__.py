"""The tabs, one file each: layout and events."""
