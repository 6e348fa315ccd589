"""What goes to the browser: traces as small events, figures, recorded races."""
