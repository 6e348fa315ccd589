"""What goes to the browser: traces as small events, figures, reasons in words."""
